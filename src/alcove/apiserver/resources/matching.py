"""Matches cache entries against label and field selectors."""

from __future__ import annotations

from collections.abc import Callable

from alcove.api.errors import BadRequest
from alcove.api.kind import Kind, Scope
from alcove.api.selectors import FieldSelector, LabelSelector
from alcove.apiserver.cache.entries import INDEXED_FIELDS, CacheEntry

Matches = Callable[[CacheEntry], bool]


def exact_fields(fields: FieldSelector) -> dict[str, str]:
    return {term.field: term.value for term in fields.terms if term.equal}


def needs_conversion(kind: Kind, fields: FieldSelector) -> bool:
    """Whether the selector names fields that stored objects may not have: a webhook converts them to the kind's version."""
    return kind.convert is not None and any(term.field in kind.strategy.fields for term in fields.terms)


def matcher(kind: Kind, labels: LabelSelector, fields: FieldSelector) -> Matches | None:
    """A test for both selectors; None if everything matches. Raises BadRequest for an unsupported field."""
    tests: list[Matches] = []
    if not labels.is_everything:
        by_labels = labels.matches
        tests.append(lambda entry: by_labels(entry.labels))
    if fields.terms:
        tests.append(_field_test(kind, fields))
    match tests:
        case []:
            return None
        case [only]:
            return only
    return lambda entry: all(test(entry) for test in tests)


def _field_test(kind: Kind, fields: FieldSelector) -> Matches:
    getters = kind.strategy.fields
    positions = {
        field: position for position, field in enumerate(INDEXED_FIELDS.get(kind.storage_resource, ()))
    }
    for term in fields.terms:
        is_supported = term.field == "metadata.name" or term.field in getters
        if not is_supported and not (term.field == "metadata.namespace" and kind.scope is Scope.NAMESPACE):
            raise BadRequest(f"field label not supported: {term.field}")

    def test(entry: CacheEntry) -> bool:
        def value(field: str) -> str:
            match field:
                case "metadata.name":
                    return entry.key.name
                case "metadata.namespace":
                    return entry.key.namespace
            if field in positions:
                return entry.indexed[positions[field]]  # Without decoding the object.
            return getters[field](entry.object)

        return fields.matches(value)

    return test

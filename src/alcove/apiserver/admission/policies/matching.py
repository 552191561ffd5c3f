"""Matches writes with a policy or binding: rules for resources, selectors for namespaces and objects."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from alcove.api import selectors
from alcove.api.ids import GroupResource, TenantId
from alcove.api.kind import Kind
from alcove.api.objects import Object, labels
from alcove.api.resources import NAMESPACES
from alcove.api.selectors import LabelSelector
from alcove.apiserver.admission.base import Attributes
from alcove.apiserver.reader import ServedKinds

TABLES_MOST = 64
Namespace = Callable[[], Object | None]
"""Returns the write's namespace; called only if it matters."""


class MatchRule(Struct, frozen=True):
    operations: frozenset[str]
    groups: frozenset[str]
    versions: frozenset[str]
    resources: tuple[tuple[str, str], ...]
    """(resource, subresource), either may be `*`."""
    scope: str
    names: frozenset[str]

    @classmethod
    def of(cls, spec: Object) -> MatchRule:
        parts = (text.partition("/") for text in spec.get("resources") or ())
        return cls(
            frozenset(spec.get("operations") or ()),
            frozenset(spec.get("apiGroups") or ()),
            frozenset(spec.get("apiVersions") or ()),
            tuple((resource, subresource) for resource, _, subresource in parts),
            spec.get("scope") or "*",
            frozenset(spec.get("resourceNames") or ()),
        )

    def matches(self, attributes: Attributes, kind: Kind) -> bool:
        """Whether the rule matches the write, considered as a write of `kind`."""
        return (
            _has(self.operations, attributes.operation.value)
            and _has(self.groups, kind.group)
            and _has(self.versions, kind.version)
            and self._matches_resource(kind.resource, attributes.subresource)
            and self._matches_scope(attributes)
            and (not self.names or attributes.name in self.names)
        )

    def _matches_resource(self, resource: str, subresource: str) -> bool:
        return any(
            outer in ("*", resource) and inner in ("*", subresource) for outer, inner in self.resources
        )

    def _matches_scope(self, attributes: Attributes) -> bool:
        if self.scope == "*":
            return True
        is_namespaced = bool(attributes.namespace) and attributes.resource != NAMESPACES
        return is_namespaced is (self.scope == "Namespaced")


def _has(items: frozenset[str], item: str) -> bool:
    return "*" in items or item in items


class ResourceMatch:
    """A compiled `matchConstraints` or `matchResources`."""

    def __init__(self, spec: Object) -> None:
        """Raises BadRequest for an invalid selector."""
        self._rules = tuple(map(MatchRule.of, spec.get("resourceRules") or ()))
        self._excluded = tuple(map(MatchRule.of, spec.get("excludeResourceRules") or ()))
        self._is_exact = spec.get("matchPolicy") == "Exact"
        self._namespaces = selectors.from_object(spec.get("namespaceSelector") or {})
        self._objects = selectors.from_object(spec.get("objectSelector") or {})

    def find(self, attributes: Attributes, equivalents: Equivalents, namespace: Namespace) -> Kind | None:
        """The kind as which the write is matched; None if it is not matched."""
        requested = attributes.requested or attributes.kind
        matched = (
            requested if not self._rules else self._matched(self._rules, attributes, requested, equivalents)
        )
        if matched is None or self._matched(self._excluded, attributes, requested, equivalents) is not None:
            return None
        if not matches_namespace(self._namespaces, attributes, namespace):
            return None
        return matched if self._matches_object(attributes) else None

    def _matched(
        self, rules: Sequence[MatchRule], attributes: Attributes, requested: Kind, equivalents: Equivalents
    ) -> Kind | None:
        if any(rule.matches(attributes, requested) for rule in rules):
            return requested
        if self._is_exact or not rules:
            return None
        for kind in equivalents.of(attributes.tenant, requested):
            if any(rule.matches(attributes, kind) for rule in rules):
                return kind
        return None

    def _matches_object(self, attributes: Attributes) -> bool:
        if self._objects.is_everything:
            return True
        return any(
            obj is not None and self._objects.matches(labels(obj)) for obj in (attributes.obj, attributes.old)
        )


class Equivalents:
    """Other kinds as which the same objects are served (mostly other versions).

    Tables are cached by the sequence of kinds from which they were built, which tenants without CRDs share.
    """

    def __init__(self, kinds: ServedKinds) -> None:
        self._kinds = kinds
        self._cached: dict[int, tuple[Sequence[Kind], dict[GroupResource, list[Kind]]]] = {}

    def of(self, tenant: TenantId, requested: Kind) -> list[Kind]:
        kinds = self._kinds.all(tenant)
        cached = self._cached.get(id(kinds))
        if cached is None or cached[0] is not kinds:
            if len(self._cached) >= TABLES_MOST:
                del self._cached[next(iter(self._cached))]
            table: dict[GroupResource, list[Kind]] = {}
            for kind in kinds:
                table.setdefault(kind.storage_resource, []).append(kind)
            cached = self._cached[id(kinds)] = (kinds, table)
        return [kind for kind in cached[1].get(requested.storage_resource, ()) if kind is not requested]


def matches_namespace(selector: LabelSelector, attributes: Attributes, namespace: Namespace) -> bool:
    """Cluster-scoped objects always match; a namespace is matched by its own labels."""
    if selector.is_everything:
        return True
    if attributes.resource == NAMESPACES:
        obj = attributes.obj or attributes.old
        return obj is not None and selector.matches(labels(obj))
    if not attributes.namespace:
        return True
    obj = namespace()
    return selector.matches(labels(obj) if obj is not None else {})

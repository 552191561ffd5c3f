"""Checks that a CRD's schema is structural: every node is typed, and alternatives only restrict values.

- Every field and item has a type (or is int-or-string, or keeps unknown fields).
- Inside `allOf`, `anyOf`, `oneOf`, `not` nothing is declared, and only fields declared outside are
  restricted.
- Metadata is defined by the server: a schema may only restrict the name.
"""

from collections.abc import Iterator
from enum import Enum
from typing import Any

from alcove.api.fields import FieldError, forbidden, invalid, required
from alcove.api.regex import RegexError, compile_regex

Schema = dict[str, Any]
FieldErrors = list[FieldError]

_INT_OR_STRING = [{"type": "integer"}, {"type": "string"}]
_TYPELESS = ("x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields")
_NESTED_FORBIDDEN = (
    ("type", "must be empty to be structural"),
    ("additionalProperties", "must be undefined to be structural"),
    ("default", "must be undefined to be structural"),
    ("title", "must be empty to be structural"),
    ("description", "must be empty to be structural"),
    ("nullable", "must be false to be structural"),
    ("x-kubernetes-preserve-unknown-fields", "must be false to be structural"),
    ("x-kubernetes-embedded-resource", "must be false to be structural"),
    ("x-kubernetes-int-or-string", "must be false to be structural"),
    ("x-kubernetes-list-map-keys", "must be empty to be structural"),
    ("x-kubernetes-list-type", "must be undefined to be structural"),
    ("x-kubernetes-map-type", "must be undefined to be structural"),
    ("x-kubernetes-validations", "must be empty to be structural"),
)


class _Level(Enum):
    ROOT = "must not be empty at the root"
    ITEM = "must not be empty for specified array items"
    FIELD = "must not be empty for specified object fields"


def structure_errors(schema: Schema, path: str) -> FieldErrors:
    """Return the errors, sorted as text (a schema's properties have no order)."""
    errors: FieldErrors = []
    _check(schema, _Level.ROOT, path, errors)
    _check_complete(schema, schema, path, path, errors)
    return sorted(errors, key=str)


def _check(schema: Schema, level: _Level, path: str, errors: FieldErrors) -> None:
    _check_parts(schema, level, path, errors)
    _check_type(schema, level, path, errors)
    _check_extensions(schema, path, errors)
    _check_alternatives(schema, path, errors, exempt=_exempt(schema))
    if level is _Level.ROOT or schema.get("x-kubernetes-embedded-resource"):
        _check_identity(schema, path, errors)
    metadata = (schema.get("properties") or {}).get("metadata")
    if metadata is not None and level is _Level.ROOT and not _only_names(metadata):
        message = (
            "must not specify anything other than name and generateName, but metadata is implicitly specified"
        )
        errors.append(forbidden(f"{path}.properties[metadata]", message))


def _check_parts(schema: Schema, level: _Level, path: str, errors: FieldErrors) -> None:
    items, values = schema.get("items"), schema.get("additionalProperties")
    if schema.get("type") == "array" and items is None:
        errors.append(required(f"{path}.items", "must be specified"))
    if isinstance(items, dict):
        _check(items, _Level.ITEM, f"{path}.items", errors)
    for name, part in (schema.get("properties") or {}).items():
        _check(part, _Level.FIELD, f"{path}.properties[{name}]", errors)
    if values is not None and level is _Level.ROOT:
        errors.append(forbidden(f"{path}.additionalProperties", "must not be used at the root"))
    if isinstance(values, dict):
        _check(values, _Level.FIELD, f"{path}.additionalProperties", errors)


def _check_type(schema: Schema, level: _Level, path: str, errors: FieldErrors) -> None:
    kind = schema.get("type") or ""
    if schema.get("x-kubernetes-embedded-resource"):
        message = "must be object if x-kubernetes-embedded-resource is true"
        if not kind:
            errors.append(required(f"{path}.type", message))
        elif kind != "object":
            errors.append(invalid(f"{path}.type", kind, message))
    elif not kind and not any(map(schema.get, _TYPELESS)):
        errors.append(required(f"{path}.type", level.value))
    if level is _Level.ROOT and kind and kind != "object":
        errors.append(invalid(f"{path}.type", kind, "must be object at the root"))


def _check_extensions(schema: Schema, path: str, errors: FieldErrors) -> None:
    if schema.get("x-kubernetes-int-or-string"):
        for keyword in ("x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"):
            if schema.get(keyword):
                message = "must be false if x-kubernetes-int-or-string is true"
                errors.append(invalid(f"{path}.{keyword}", True, message))
    if not schema.get("x-kubernetes-embedded-resource"):
        return
    if schema.get("additionalProperties") is not None:
        message = "must not be used if x-kubernetes-embedded-resource is set"
        errors.append(forbidden(f"{path}.additionalProperties", message))
    if not schema.get("x-kubernetes-preserve-unknown-fields") and not schema.get("properties"):
        message = (
            "must not be empty if x-kubernetes-embedded-resource is true without "
            "x-kubernetes-preserve-unknown-fields"
        )
        errors.append(required(f"{path}.properties", message))


def _check_identity(schema: Schema, path: str, errors: FieldErrors) -> None:
    properties = schema.get("properties") or {}
    for name, expected in (("kind", "string"), ("apiVersion", "string"), ("metadata", "object")):
        part = properties.get(name)
        if part is not None and part.get("type") != expected:
            errors.append(
                invalid(f"{path}.properties[{name}].type", part.get("type") or "", f"must be {expected}")
            )


def _only_names(metadata: Schema) -> bool:
    """Whether the schema of metadata restricts nothing except names."""
    keywords = {keyword for keyword, value in metadata.items() if value not in (None, "", False, [], {})}
    names = set(metadata.get("properties") or {})
    return keywords <= {"type", "properties", "default"} and names <= {"name", "generateName"}


# Alternatives.


def _exempt(schema: Schema) -> str:
    """Return the keyword that may list the types of an int-or-string: `anyOf`, or first in `allOf`."""
    if schema.get("anyOf") == _INT_OR_STRING:
        return "anyOf"
    parts = schema.get("allOf") or []
    return "allOf" if parts and parts[0].get("anyOf") == _INT_OR_STRING else ""


def nested(schema: Schema, path: str) -> Iterator[tuple[str, int, Schema, str]]:
    """Yield every alternative under a schema: (keyword, index, alternative, its path)."""
    for keyword in ("anyOf", "allOf", "oneOf"):
        for index, part in enumerate(schema.get(keyword) or ()):
            yield keyword, index, part, f"{path}.{keyword}[{index}]"
    if schema.get("not") is not None:
        yield "not", 0, schema["not"], f"{path}.not"


def _check_alternatives(schema: Schema, path: str, errors: FieldErrors, *, exempt: str = "") -> None:
    for keyword, index, part, where in nested(schema, path):
        if keyword == exempt == "anyOf":
            continue
        first_of_all = keyword == exempt == "allOf" and index == 0
        _check_nested(part, where, errors, exempt="anyOf" if first_of_all else "")
    pattern = schema.get("pattern")
    if pattern:
        try:
            compile_regex(pattern)
        except RegexError as error:
            message = f"must be a valid regular expression, but isn't: {error}"
            errors.append(invalid(f"{path}.pattern", pattern, message))


def _check_nested(schema: Schema, path: str, errors: FieldErrors, *, exempt: str = "") -> None:
    _check_alternatives(schema, path, errors, exempt=exempt)
    for keyword, message in _NESTED_FORBIDDEN:
        if schema.get(keyword):
            errors.append(forbidden(f"{path}.{keyword}", message))
    items = schema.get("items")
    if isinstance(items, dict):
        _check_nested(items, f"{path}.items", errors)
    properties = schema.get("properties") or {}
    for name, part in properties.items():
        _check_nested(part, f"{path}.properties[{name}]", errors)
    if "metadata" in properties:
        message = "must not be specified in a nested context"
        errors.append(forbidden(f"{path}.properties[metadata]", message))


def _check_complete(
    schema: Schema, declared: Schema, path: str, declared_path: str, errors: FieldErrors
) -> None:
    """Fields in alternatives have to be declared at the same path outside of them."""
    for _keyword, _index, part, where in nested(schema, path):
        _check_declared(part, declared, where, declared_path, errors)


def _check_declared(
    schema: Schema, declared: Any, path: str, declared_path: str, errors: FieldErrors
) -> None:
    if not isinstance(declared, dict):
        errors.append(required(declared_path, f"because it is defined in {path}"))
        return
    _check_complete(schema, declared, path, declared_path, errors)
    if isinstance(schema.get("items"), dict):
        inner = f"{declared_path}.items"
        _check_declared(schema["items"], declared.get("items"), f"{path}.items", inner, errors)
    declared_properties = declared.get("properties") or {}
    for name, part in (schema.get("properties") or {}).items():
        where = f".properties[{name}]"
        _check_declared(part, declared_properties.get(name), path + where, declared_path + where, errors)

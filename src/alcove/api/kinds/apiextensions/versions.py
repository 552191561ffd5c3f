"""The versions of a CRD: exactly one is stored, each has a schema, columns and subresources."""

import re
from collections.abc import Callable
from typing import Any

from alcove.api import names
from alcove.api.fields import FieldError, duplicate, invalid, required, too_many
from alcove.api.objects import Object

COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
COLUMN_FORMATS = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")
SELECTABLE_FIELDS_MAX = 8
WARNING_LENGTH_MAX_BYTES = 256

_STEP = re.compile(r"\.([^.\[\]]+)|\['((?:[^'\\]|\\.)+)'\]")


def validate_versions(spec: Object) -> list[FieldError]:
    versions: list[Object] = spec.get("versions") or []
    errors: list[FieldError] = []
    for index, version in enumerate(versions):
        path = f"spec.versions[{index}]"
        if _schema(version) is None:
            message = "schemas are required"
            errors.append(required(f"{path}.schema.openAPIV3Schema", message))
    for index, version in enumerate(versions):
        path = f"spec.versions[{index}]"
        if wrong := names.dns_1035_label(version.get("name", "")):
            errors.append(invalid(f"{path}.name", version.get("name", ""), ",".join(wrong)))
        errors += _deprecation(version, path)
    version_names = [version.get("name", "") for version in versions]
    if len(set(version_names)) < len(version_names):
        errors.append(invalid("spec.versions", versions, "must contain unique version names"))
    if sum(1 for version in versions if version.get("storage")) != 1:
        message = "must have exactly one version marked as storage version"
        errors.append(invalid("spec.versions", versions, message))
    errors += _each(versions, "subresources", _subresources)
    errors += _each(versions, "additionalPrinterColumns", _columns)
    return errors + _each(versions, "selectableFields", _selectable)


def _each(
    versions: list[Object], field: str, check: Callable[[Object, str], list[FieldError]]
) -> list[FieldError]:
    """Check a field of every version; if it is the same in all, once and without the version's path."""
    if versions and all(version.get(field) == versions[0].get(field) for version in versions):
        return check(versions[0], f"spec.{field}")
    return [
        error
        for index, version in enumerate(versions)
        for error in check(version, f"spec.versions[{index}].{field}")
    ]


def _schema(version: Object) -> Object | None:
    return (version.get("schema") or {}).get("openAPIV3Schema")


def _deprecation(version: Object, path: str) -> list[FieldError]:
    warning = version.get("deprecationWarning")
    if warning is None:
        return []
    messages = []
    if not version.get("deprecated"):
        messages.append("can only be set for deprecated versions")
    elif len(warning.encode()) > WARNING_LENGTH_MAX_BYTES:
        messages.append("must be <= 256 characters long")
    elif not warning:
        messages.append("must not be an empty string")
    elif not warning.isprintable():
        at = next(index for index, character in enumerate(warning) if not character.isprintable())
        offset = len(warning[:at].encode())
        messages.append(
            f"must only contain printable UTF-8 characters; non-printable character found at index {offset}"
        )
    return [invalid(f"{path}.deprecationWarning", warning, each) for each in messages]


def _simple_path(text: str, path: str) -> list[FieldError]:
    return [] if text.startswith(".") else [invalid(path, text, "must be a simple json path starting with .")]


def _path_under(text: str, roots: tuple[str, ...], message: str, path: str) -> list[FieldError]:
    if errors := _simple_path(text, path):
        return errors
    return [] if text.startswith(roots) else [invalid(path, text, message)]


def _subresources(version: Object, path: str) -> list[FieldError]:
    scale = (version.get("subresources") or {}).get("scale")
    if scale is None:
        return []
    errors: list[FieldError] = []
    for field, root in (("specReplicasPath", ".spec"), ("statusReplicasPath", ".status")):
        where = f"{path}.scale.{field}"
        if not scale.get(field):
            errors.append(required(where))
        else:
            errors += _path_under(scale[field], (f"{root}.",), f"should be a json path under {root}", where)
    if scale.get("labelSelectorPath"):
        message = "should be a json path under either .spec or .status"
        where = f"{path}.scale.labelSelectorPath"
        errors += _path_under(scale["labelSelectorPath"], (".spec.", ".status."), message, where)
    return errors


def _columns(version: Object, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, column in enumerate(version.get("additionalPrinterColumns") or ()):
        where, kind, form = f"{path}[{index}]", column.get("type", ""), column.get("format", "")
        if not column.get("name"):
            errors.append(required(f"{where}.name"))
        if not kind:
            errors.append(required(f"{where}.type", f"must be one of {','.join(COLUMN_TYPES)}"))
        elif kind not in COLUMN_TYPES:
            errors.append(invalid(f"{where}.type", kind, f"must be one of {','.join(COLUMN_TYPES)}"))
        if form and form not in COLUMN_FORMATS:
            errors.append(invalid(f"{where}.format", form, f"must be one of {','.join(COLUMN_FORMATS)}"))
        if not column.get("jsonPath"):
            errors.append(required(f"{where}.JSONPath"))
        else:
            errors += _simple_path(column["jsonPath"], f"{where}.JSONPath")
    return errors


def _selectable(version: Object, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[tuple[str, ...]] = set()
    for index, entry in enumerate(version.get("selectableFields") or ()):
        where, text = f"{path}[{index}].jsonPath", entry.get("jsonPath", "")
        if not text:
            errors.append(required(where))
            continue
        steps = field_steps(text)
        field_schema = _schema_at(_schema(version), steps)
        if not steps or field_schema is None:
            message = "is an invalid path: does not refer to a valid field"
            errors.append(invalid(where, text, message))
            continue
        if steps[0] == "metadata":
            errors.append(invalid(where, text, "must not point to fields in metadata"))
        if field_schema.get("type") not in ("string", "boolean", "integer"):
            message = (
                "must point to a field of type string, boolean or integer. "
                "Enum string fields and strings with formats are allowed."
            )
            errors.append(invalid(where, text, message))
        if steps in seen:
            errors.append(duplicate(where, text))
        seen.add(steps)
    if len(seen) > SELECTABLE_FIELDS_MAX:
        errors.append(too_many(path, len(seen), SELECTABLE_FIELDS_MAX))
    return errors


def field_steps(text: str) -> tuple[str, ...]:
    """Split `.spec.color` or `.spec['my-color']` into steps; empty if it is not such a path."""
    steps, at = [], 0
    while match := _STEP.match(text, at):
        steps.append(match[1] or re.sub(r"\\(.)", r"\1", match[2]))
        at = match.end()
    return tuple(steps) if at == len(text) else ()


def _schema_at(schema: Any, steps: tuple[str, ...]) -> Object | None:
    for step in steps:
        properties = schema.get("properties") if isinstance(schema, dict) else None
        schema = properties.get(step) if isinstance(properties, dict) else None
    return schema if isinstance(schema, dict) else None

"""The versions of a definition: one of them stored, each with a schema, columns and subresources."""

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
    faults: list[FieldError] = []
    for index, version in enumerate(versions):
        path = f"spec.versions[{index}]"
        if _schema(version) is None:
            message = "schemas are required"
            faults.append(required(f"{path}.schema.openAPIV3Schema", message))
    for index, version in enumerate(versions):
        path = f"spec.versions[{index}]"
        if wrong := names.dns_1035_label(version.get("name", "")):
            faults.append(invalid(f"{path}.name", version.get("name", ""), ",".join(wrong)))
        faults += _deprecation(version, path)
    given = [version.get("name", "") for version in versions]
    if len(set(given)) < len(given):
        faults.append(invalid("spec.versions", versions, "must contain unique version names"))
    if sum(1 for version in versions if version.get("storage")) != 1:
        message = "must have exactly one version marked as storage version"
        faults.append(invalid("spec.versions", versions, message))
    faults += _each(versions, "subresources", _subresources)
    faults += _each(versions, "additionalPrinterColumns", _columns)
    return faults + _each(versions, "selectableFields", _selectable)


def _each(
    versions: list[Object], field: str, check: Callable[[Object, str], list[FieldError]]
) -> list[FieldError]:
    """Checks a field of every version; where all set it alike, once and without the version's path."""
    if versions and all(version.get(field) == versions[0].get(field) for version in versions):
        return check(versions[0], f"spec.{field}")
    return [
        fault
        for index, version in enumerate(versions)
        for fault in check(version, f"spec.versions[{index}].{field}")
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
    if faults := _simple_path(text, path):
        return faults
    return [] if text.startswith(roots) else [invalid(path, text, message)]


def _subresources(version: Object, path: str) -> list[FieldError]:
    scale = (version.get("subresources") or {}).get("scale")
    if scale is None:
        return []
    faults: list[FieldError] = []
    for field, root in (("specReplicasPath", ".spec"), ("statusReplicasPath", ".status")):
        where = f"{path}.scale.{field}"
        if not scale.get(field):
            faults.append(required(where))
        else:
            faults += _path_under(scale[field], (f"{root}.",), f"should be a json path under {root}", where)
    if scale.get("labelSelectorPath"):
        message = "should be a json path under either .spec or .status"
        where = f"{path}.scale.labelSelectorPath"
        faults += _path_under(scale["labelSelectorPath"], (".spec.", ".status."), message, where)
    return faults


def _columns(version: Object, path: str) -> list[FieldError]:
    faults: list[FieldError] = []
    for index, column in enumerate(version.get("additionalPrinterColumns") or ()):
        where, kind, form = f"{path}[{index}]", column.get("type", ""), column.get("format", "")
        if not column.get("name"):
            faults.append(required(f"{where}.name"))
        if not kind:
            faults.append(required(f"{where}.type", f"must be one of {','.join(COLUMN_TYPES)}"))
        elif kind not in COLUMN_TYPES:
            faults.append(invalid(f"{where}.type", kind, f"must be one of {','.join(COLUMN_TYPES)}"))
        if form and form not in COLUMN_FORMATS:
            faults.append(invalid(f"{where}.format", form, f"must be one of {','.join(COLUMN_FORMATS)}"))
        if not column.get("jsonPath"):
            faults.append(required(f"{where}.JSONPath"))
        else:
            faults += _simple_path(column["jsonPath"], f"{where}.JSONPath")
    return faults


def _selectable(version: Object, path: str) -> list[FieldError]:
    faults: list[FieldError] = []
    seen: set[tuple[str, ...]] = set()
    for index, entry in enumerate(version.get("selectableFields") or ()):
        where, text = f"{path}[{index}].jsonPath", entry.get("jsonPath", "")
        if not text:
            faults.append(required(where))
            continue
        steps = field_steps(text)
        found = _schema_at(_schema(version), steps)
        if not steps or found is None:
            message = "is an invalid path: does not refer to a valid field"
            faults.append(invalid(where, text, message))
            continue
        if steps[0] == "metadata":
            faults.append(invalid(where, text, "must not point to fields in metadata"))
        if found.get("type") not in ("string", "boolean", "integer"):
            message = (
                "must point to a field of type string, boolean or integer. "
                "Enum string fields and strings with formats are allowed."
            )
            faults.append(invalid(where, text, message))
        if steps in seen:
            faults.append(duplicate(where, text))
        seen.add(steps)
    if len(seen) > SELECTABLE_FIELDS_MAX:
        faults.append(too_many(path, len(seen), SELECTABLE_FIELDS_MAX))
    return faults


def field_steps(text: str) -> tuple[str, ...]:
    """`.spec.color` or `.spec['my-color']` as its steps; empty where it is no such path."""
    steps, at = [], 0
    while found := _STEP.match(text, at):
        steps.append(found[1] or re.sub(r"\\(.)", r"\1", found[2]))
        at = found.end()
    return tuple(steps) if at == len(text) else ()


def _schema_at(schema: Any, steps: tuple[str, ...]) -> Object | None:
    for step in steps:
        properties = schema.get("properties") if isinstance(schema, dict) else None
        schema = properties.get(step) if isinstance(properties, dict) else None
    return schema if isinstance(schema, dict) else None

"""Kubernetes objects as decoded JSON, and functions to read them safely.

Objects are plain dicts: their shape is defined by the schema (`api/schema`), not by Python types.
"""

from typing import Any

Object = dict[str, Any]
"""One decoded API object, or any JSON object inside one."""


def get(obj: Object, *path: str, default: Any = None) -> Any:
    """Return the value at `path`, or `default` if any step is missing or not an object."""
    value: Any = obj
    for step in path:
        if not isinstance(value, dict):
            return default
        value = value.get(step)
        if value is None:
            return default
    return value


def metadata(obj: Object) -> Object:
    """Return the object's metadata, created if it is missing."""
    return obj.setdefault("metadata", {})  # type: ignore[no-any-return]


def labels(obj: Object) -> dict[str, str]:
    return get(obj, "metadata", "labels", default={})  # type: ignore[no-any-return]


def annotations(obj: Object) -> dict[str, str]:
    return get(obj, "metadata", "annotations", default={})  # type: ignore[no-any-return]


def name(obj: Object) -> str:
    return get(obj, "metadata", "name", default="")  # type: ignore[no-any-return]


def namespace(obj: Object) -> str:
    return get(obj, "metadata", "namespace", default="")  # type: ignore[no-any-return]

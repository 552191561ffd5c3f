"""Keyed data of config maps and secrets: good keys, bounded size, immutable once said so."""

from collections.abc import Mapping

from alcove.api import names
from alcove.api.fields import FieldError, forbidden
from alcove.api.objects import Object
from alcove.api.validation import Faults, check_value

SIZE_MAX_BYTES = 1024 * 1024
_SEALED = "field is immutable when `immutable` is set"


def check_keys(data: Mapping[str, str], path: str, faults: Faults) -> None:
    for key in data:
        if names.config_key(key):
            check_value(key, names.config_key, f"{path}[{key}]", faults)


def text_bytes(data: Mapping[str, str]) -> int:
    """Size of texts as UTF-8; characters are counted first, for most data is far from any limit."""
    if sum(map(len, data.values())) * 4 <= SIZE_MAX_BYTES:
        return 0
    return sum(len(value.encode()) for value in data.values())


def base64_bytes(data: Mapping[str, str]) -> int:
    """Size of what the base64 stands for."""
    return sum(len(value) * 3 // 4 - value[-2:].count("=") for value in data.values())


def validate_sealed(new: Object, old: Object, *fields: str) -> list[FieldError]:
    """What `immutable: true` asks of later writes."""
    if not old.get("immutable"):
        return []
    faults = [] if new.get("immutable") else [forbidden("immutable", _SEALED)]
    faults += [
        forbidden(field, _SEALED) for field in fields if (new.get(field) or {}) != (old.get(field) or {})
    ]
    return faults

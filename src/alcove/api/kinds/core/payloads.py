"""Data of config maps and secrets: valid keys, bounded size, immutability."""

from collections.abc import Mapping

from alcove.api import names
from alcove.api.fields import FieldError, forbidden
from alcove.api.objects import Object
from alcove.api.validation import FieldErrors, check_value

SIZE_MAX_BYTES = 1024 * 1024
_SEALED = "field is immutable when `immutable` is set"


def check_keys(data: Mapping[str, str], path: str, errors: FieldErrors) -> None:
    for key in data:
        if names.config_key(key):
            check_value(key, names.config_key, f"{path}[{key}]", errors)


def text_bytes(data: Mapping[str, str]) -> int:
    """Return the size as UTF-8; characters are counted first, because most data is far below any limit."""
    if sum(map(len, data.values())) * 4 <= SIZE_MAX_BYTES:
        return 0
    return sum(len(value.encode()) for value in data.values())


def base64_bytes(data: Mapping[str, str]) -> int:
    """Return the decoded size of base64 values."""
    return sum(len(value) * 3 // 4 - value[-2:].count("=") for value in data.values())


def validate_sealed(new: Object, old: Object, *fields: str) -> list[FieldError]:
    """Check that data with `immutable: true` did not change."""
    if not old.get("immutable"):
        return []
    errors = [] if new.get("immutable") else [forbidden("immutable", _SEALED)]
    errors += [
        forbidden(field, _SEALED) for field in fields if (new.get(field) or {}) != (old.get(field) or {})
    ]
    return errors

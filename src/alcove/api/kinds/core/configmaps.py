"""ConfigMaps: text and binary data by key."""

from alcove.api.fields import FieldError, invalid, too_long
from alcove.api.kind import Strategy
from alcove.api.kinds.core.payloads import (
    SIZE_MAX_BYTES,
    base64_bytes,
    check_keys,
    text_bytes,
    validate_sealed,
)
from alcove.api.objects import Object


def _validate(config: Object) -> list[FieldError]:
    errors: list[FieldError] = []
    texts, binaries = config.get("data", {}), config.get("binaryData", {})
    check_keys(texts, "data", errors)
    message = "duplicate of key present in binaryData"
    errors += [invalid(f"data[{key}]", key, message) for key in texts if key in binaries]
    check_keys(binaries, "binaryData", errors)
    if text_bytes(texts) + base64_bytes(binaries) > SIZE_MAX_BYTES:
        errors.append(too_long("[]", SIZE_MAX_BYTES))
    return errors


def _validate_update(new: Object, old: Object) -> list[FieldError]:
    return validate_sealed(new, old, "data", "binaryData")


STRATEGY = Strategy(validate=_validate, validate_update=_validate_update)

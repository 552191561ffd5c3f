"""Config maps: texts and bytes by key."""

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
    faults: list[FieldError] = []
    texts, binaries = config.get("data", {}), config.get("binaryData", {})
    check_keys(texts, "data", faults)
    message = "duplicate of key present in binaryData"
    faults += [invalid(f"data[{key}]", key, message) for key in texts if key in binaries]
    check_keys(binaries, "binaryData", faults)
    if text_bytes(texts) + base64_bytes(binaries) > SIZE_MAX_BYTES:
        faults.append(too_long("[]", SIZE_MAX_BYTES))
    return faults


def _validate_update(new: Object, old: Object) -> list[FieldError]:
    return validate_sealed(new, old, "data", "binaryData")


STRATEGY = Strategy(validate=_validate, validate_update=_validate_update)

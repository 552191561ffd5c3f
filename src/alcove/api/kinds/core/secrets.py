"""Secrets: binary data by key; some types require certain keys."""

import base64
import binascii

import msgspec

from alcove.api.fields import FieldError, invalid, required, too_long
from alcove.api.kind import Strategy
from alcove.api.kinds.core.payloads import SIZE_MAX_BYTES, base64_bytes, check_keys, validate_sealed
from alcove.api.kinds.metadata import immutable
from alcove.api.objects import Object, annotations
from alcove.api.validation import FieldErrors

ACCOUNT_NAME = "kubernetes.io/service-account.name"
_REQUIRED = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}
_REDACTED = "<secret contents redacted>"


def _default(secret: Object) -> None:
    if not secret.get("type"):
        secret["type"] = "Opaque"
    # `stringData` is write-only; `data` is stored and read.
    if texts := secret.pop("stringData", None):
        encoded = {key: base64.b64encode(text.encode()).decode() for key, text in texts.items()}
        secret["data"] = {**secret.get("data", {}), **encoded}


def _validate(secret: Object) -> list[FieldError]:
    errors: list[FieldError] = []
    data = secret.get("data", {})
    check_keys(data, "data", errors)
    if base64_bytes(data) > SIZE_MAX_BYTES:
        errors.append(too_long("data", SIZE_MAX_BYTES))
    _check_type(secret, data, errors)
    return errors


def _check_type(secret: Object, data: dict[str, str], errors: FieldErrors) -> None:
    kind = secret.get("type", "")
    for key in _REQUIRED.get(kind, ()):
        if key not in data:
            errors.append(required(f"data[{key}]"))
        elif kind != "kubernetes.io/tls":
            _check_json(data[key], f"data[{key}]", errors)
    if kind == "kubernetes.io/service-account-token" and not annotations(secret).get(ACCOUNT_NAME):
        errors.append(required(f"metadata.annotations[{ACCOUNT_NAME}]"))
    elif kind == "kubernetes.io/basic-auth" and not {"username", "password"} & data.keys():
        errors += [required("data[username]"), required("data[password]")]
    elif kind == "kubernetes.io/ssh-auth" and not data.get("ssh-privatekey"):
        errors.append(required("data[ssh-privatekey]"))


def _check_json(encoded: str, path: str, errors: FieldErrors) -> None:
    try:
        msgspec.json.decode(base64.b64decode(encoded, validate=True), type=dict)
    except (msgspec.DecodeError, binascii.Error) as error:
        errors.append(invalid(path, _REDACTED, str(error)))


def _validate_update(new: Object, old: Object) -> list[FieldError]:
    errors: list[FieldError] = []
    immutable(new.get("type", ""), old.get("type", ""), "type", errors)
    return errors + validate_sealed(new, old, "data")


STRATEGY = Strategy(
    default=_default,
    validate=_validate,
    validate_update=_validate_update,
    fields={"type": lambda secret: str(secret.get("type", ""))},
)

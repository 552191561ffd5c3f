"""Reads Kubernetes' EncryptionConfiguration file, and creates one for a new cluster.

    apiVersion: apiserver.config.k8s.io/v1
    kind: EncryptionConfiguration
    resources:
      - resources: [secrets]
        providers:
          - aesgcm: {keys: [{name: key1, secret: BASE64}]}
          - identity: {}

`aesgcm` and `identity` are supported. Every other provider is refused: a file that is accepted protects as it
says.
"""

import base64
import binascii
import re
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from alcove.store.base import StoreOpenError
from alcove.store.encryption import AesGcmKey, Encryption, Providers

ENCRYPTION_FILE = "encryption.yaml"
"""In a cluster's data directory, beside the store and outside of what `alcove backup` saves."""
API_VERSION = "apiserver.config.k8s.io/v1"
KIND = "EncryptionConfiguration"
KEY_BYTES = (16, 24, 32)
_KEY_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?")
_UNSUPPORTED = {
    "aescbc": "it does not detect changed ciphertexts; use aesgcm",
    "secretbox": "use aesgcm, which does not limit the number of writes here",
    "kms": "keys are read from this file only; use aesgcm",
}


class _Key(Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    secret: str


class _Keys(Struct, frozen=True, forbid_unknown_fields=True):
    keys: Annotated[list[_Key], Meta(min_length=1)]


class _Rule(Struct, frozen=True, forbid_unknown_fields=True):
    resources: Annotated[list[str], Meta(min_length=1)]
    providers: Annotated[list[dict[str, Any]], Meta(min_length=1)]


class _Configuration(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    api_version: str
    kind: str
    resources: Annotated[list[_Rule], Meta(min_length=1)]


def load(path: Path) -> Encryption:
    """Raises StoreOpenError; its message names the file and the field, and never contains a key."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise StoreOpenError(f"cannot read the encryption configuration {path}: {error.strerror}") from error
    try:
        return parse(data)
    except ValueError as error:
        raise StoreOpenError(f"{path}: {error}") from error


def parse(data: bytes) -> Encryption:
    """Raises ValueError."""
    configuration = msgspec.yaml.decode(data, type=_Configuration)
    if (configuration.api_version, configuration.kind) != (API_VERSION, KIND):
        raise ValueError(f"expected apiVersion {API_VERSION} and kind {KIND}")
    rules = []
    for index, rule in enumerate(configuration.resources):
        try:
            rules.append((_resources(rule.resources), _providers(rule.providers)))
        except ValueError as error:
            raise ValueError(f"resources[{index}]: {error}") from error
    return Encryption(rules)


def generate() -> bytes:
    """A configuration that encrypts secrets with a new key and reads those that are not encrypted yet."""
    key = {
        "name": f"key-{secrets.token_hex(4)}",
        "secret": base64.b64encode(secrets.token_bytes(32)).decode(),
    }
    rule = {"resources": ["secrets"], "providers": [{"aesgcm": {"keys": [key]}}, {"identity": {}}]}
    return msgspec.yaml.encode({"apiVersion": API_VERSION, "kind": KIND, "resources": [rule]})


def _resources(names: Sequence[str]) -> list[str]:
    for name in names:
        if not re.fullmatch(r"\*\.(\*|[a-z0-9.-]*)|[a-z0-9-]+(\.[a-z0-9.-]+)?", name):
            raise ValueError(f'"{name}" is not a resource: use secrets, deployments.apps, *.apps, *. or *.*')
    return list(names)


def _providers(listed: Sequence[dict[str, Any]]) -> Providers:
    order: list[AesGcmKey | None] = []
    for index, provider in enumerate(listed):
        if len(provider) != 1:
            raise ValueError(f"providers[{index}]: exactly one provider must be named")
        [(name, settings)] = provider.items()
        if name == "identity":
            order.append(None)
        elif name == "aesgcm":
            order += _keys(f"providers[{index}].aesgcm", settings)
        else:
            reason = _UNSUPPORTED.get(name, "use aesgcm or identity")
            raise ValueError(f'providers[{index}]: the provider "{name}" is not supported: {reason}')
    names = [key.name for key in order if key is not None]
    if len(set(names)) < len(names):
        raise ValueError("two aesgcm keys have the same name: a stored body names the key that it needs")
    return Providers.of(order)


def _keys(path: str, settings: object) -> list[AesGcmKey]:
    try:
        listed = msgspec.convert(settings, _Keys).keys
    except msgspec.ValidationError as error:
        raise ValueError(f"{path}: {error}") from error
    keys = []
    for index, key in enumerate(listed):
        if not _KEY_NAME.fullmatch(key.name):
            raise ValueError(f"{path}.keys[{index}].name: use up to 253 letters, digits, '-', '_' and '.'")
        try:
            secret = base64.b64decode(key.secret, validate=True)
        except (binascii.Error, ValueError) as error:
            raise ValueError(f"{path}.keys[{index}].secret is not base64") from error
        if len(secret) not in KEY_BYTES:
            raise ValueError(
                f"{path}.keys[{index}].secret has {len(secret)} bytes; it must have 16, 24 or 32"
            )
        keys.append(AesGcmKey(key.name, secret))
    return keys

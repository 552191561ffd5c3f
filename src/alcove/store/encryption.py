"""Encryption of stored bodies: which resources are encrypted, with which keys.

A stored body is either the object's JSON, or

    alcove:enc:aesgcm:v1:KEY-NAME:  salt (32 bytes)  nonce (12 bytes)  ciphertext and tag

The AES-256-GCM key of each body is derived from the named key and the body's own salt. Random nonces under one
AES-GCM key would be unsafe after some billions of writes; with 256 + 96 random bits, the number of writes is no
reason to rotate a key. The object's store key is authenticated with the body, so a body that is copied to
another object, or another tenant, cannot be read there.
"""

import hmac
import os
from collections.abc import Sequence

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from msgspec import Struct

from alcove.api.ids import GroupResource, Key
from alcove.store.keys import resource_text

MARK = b"alcove:enc:"
"""No JSON begins with it."""
_SALT_BYTES = 32
_NONCE_BYTES = 12
_HEADER_BYTES_MAX = 512


class UnreadableBody(Exception):
    """A stored body cannot be decrypted; the message says why, without naming the object."""


class AesGcmKey:
    """A named key. Secret keys of 16, 24 and 32 bytes are accepted, as in Kubernetes."""

    def __init__(self, name: str, secret: bytes) -> None:
        self.name = name
        self.header = b"%baesgcm:v1:%b:" % (MARK, name.encode())
        self._secret = secret

    def seal(self, key: Key, body: bytes) -> bytes:
        salt, nonce = os.urandom(_SALT_BYTES), os.urandom(_NONCE_BYTES)
        ciphertext = self._cipher(salt).encrypt(nonce, body, _authenticated(key))
        return b"".join((self.header, salt, nonce, ciphertext))

    def open(self, key: Key, stored: bytes) -> bytes:
        """Raises UnreadableBody."""
        nonce_at = len(self.header) + _SALT_BYTES
        body_at = nonce_at + _NONCE_BYTES
        cipher = self._cipher(stored[len(self.header) : nonce_at])
        try:
            return cipher.decrypt(stored[nonce_at:body_at], stored[body_at:], _authenticated(key))
        except (InvalidTag, ValueError) as error:
            raise UnreadableBody(
                f'the aesgcm key "{self.name}" is not the one it was encrypted with, or the stored bytes were changed'
            ) from error

    def _cipher(self, salt: bytes) -> AESGCM:
        # HKDF-Expand (RFC 5869) of one block, with the salt as its info.
        return AESGCM(hmac.digest(self._secret, salt + b"\x01", "sha256"))


class Providers(Struct, frozen=True):
    """How the bodies of a resource are stored: written with the first provider, read with all of them."""

    order: Sequence[AesGcmKey | None]
    """None is `identity`: not encrypted."""
    keys: dict[bytes, AesGcmKey]
    """By header."""
    is_plain: bool
    """Bodies are written, and may be read, without encryption."""

    @classmethod
    def of(cls, order: Sequence[AesGcmKey | None]) -> "Providers":
        return cls(order, {key.header: key for key in order if key is not None}, order[0] is None)

    def seal(self, key: Key, body: bytes) -> bytes:
        first = self.order[0]
        return body if first is None else first.seal(key, body)

    def open(self, key: Key, stored: bytes) -> bytes:
        """Raises UnreadableBody."""
        header = _header(stored)
        if header is None:
            if None in self.order:
                return stored
            raise UnreadableBody("it is stored without encryption, and `identity` is not among the providers")
        named = self.keys.get(header)
        if named is None:
            raise UnreadableBody(
                f"it needs the key {_described(header)}, which is not in the encryption configuration"
            )
        return named.open(key, stored)

    def is_stale(self, stored: bytes) -> bool:
        """Whether a body is stored in another form than it would be written in now."""
        first = self.order[0]
        return _header(stored) != (None if first is None else first.header)


PLAIN = Providers.of([None])


class Encryption:
    """The encryption configuration: rules in order, of which the first that names a resource applies."""

    def __init__(self, rules: Sequence[tuple[Sequence[str], Providers]] = ()) -> None:
        """A rule names resources as `secrets`, `deployments.apps`, `*.apps`, `*.` (the core group) or `*.*`."""
        self._rules = rules
        self._by_resource: dict[GroupResource, Providers] = {}

    def providers(self, resource: GroupResource) -> Providers:
        found = self._by_resource.get(resource)
        if found is None:
            found = self._by_resource[resource] = self._find(resource)
        return found

    def _find(self, resource: GroupResource) -> Providers:
        names = {resource_text(resource), f"*.{resource.group}", "*.*"}
        return next((providers for named, providers in self._rules if names & set(named)), PLAIN)


def key_of(stored: bytes) -> str:
    """The provider and name of the key that a stored body is encrypted with; empty if it is not encrypted."""
    header = _header(stored)
    return "" if header is None else _described(header)


def _header(stored: bytes) -> bytes | None:
    if not stored.startswith(MARK):
        return None
    end = -1
    for _ in range(5):
        end = stored.find(b":", end + 1, _HEADER_BYTES_MAX)
        if end < 0:
            return stored[:_HEADER_BYTES_MAX]
    return stored[: end + 1]


def _described(header: bytes) -> str:
    provider, _, name = header.removeprefix(MARK).decode("utf-8", "replace").rstrip(":").partition(":v1:")
    return f'"{name}" of the provider {provider}'


def _authenticated(key: Key) -> bytes:
    """The store key as additional authenticated data. None of its parts contains a NUL."""
    return "\0".join((resource_text(key.resource), key.tenant, key.namespace, key.name)).encode()

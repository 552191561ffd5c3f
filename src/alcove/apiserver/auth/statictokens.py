"""Static tokens: a file that an operator writes, for use before other credentials exist.

YAML or JSON, a list of `{token, user, tenant, groups, uid, expires}`; `expires` is RFC 3339 and optional. The
whole file is rejected if one entry is invalid. Only digests of the tokens are held in memory.
"""

import hashlib
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path

import msgspec
from msgspec import Struct

from alcove.api import meta
from alcove.api.errors import Unauthorized
from alcove.apiserver.auth import keyfiles, subjects
from alcove.apiserver.auth.keyfiles import KeyFileError
from alcove.apiserver.identity import ALL_AUTHENTICATED, Identity

TOKEN_LENGTH_MIN = 16


class StaticToken(Struct, frozen=True, forbid_unknown_fields=True):
    token: str
    user: str
    tenant: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    expires: datetime | None = None


class _Entry(Struct, frozen=True):
    identity: Identity
    expires: float


class StaticTokens:
    def __init__(self, entries_by_digest: Mapping[bytes, _Entry], clock: Callable[[], float]) -> None:
        self._entries = entries_by_digest
        self._clock = clock

    @classmethod
    def open(cls, path: Path, clock: Callable[[], float]) -> "StaticTokens":
        """The file's tokens. Raises KeyFileError."""
        data = keyfiles.read(path)
        if data is None:
            raise KeyFileError(f"token file {path} not found")
        try:
            entries = msgspec.yaml.decode(data, type=list[StaticToken])
        except msgspec.DecodeError as error:
            raise KeyFileError(f"{path}: {error}") from error
        entries_by_digest: dict[bytes, _Entry] = {}
        for index, entry in enumerate(entries):
            try:
                parsed_entry = _parse(entry)
            except ValueError as error:
                raise KeyFileError(f"{path}: entry {index}: {error}") from error
            digest = _digest(entry.token)
            if digest in entries_by_digest:
                raise KeyFileError(f"{path}: entry {index}: duplicate token")
            entries_by_digest[digest] = parsed_entry
        return cls(entries_by_digest, clock)

    def find(self, token: str) -> Identity | None:
        """The token's identity; None if it is not in the file. Raises Unauthorized if it has expired."""
        digest = _digest(token)
        entry = self._entries.get(digest)
        if entry is None:
            return None
        if self._clock() >= entry.expires:
            ended = meta.format_time(entry.expires)
            raise Unauthorized(f"Unauthorized: invalid token: it expired at {ended}; get a new one")
        return entry.identity


def _digest(token: str) -> bytes:
    """Digests are compared instead of tokens, so that the time of a lookup reveals nothing about them."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


def _parse(entry: StaticToken) -> _Entry:
    if len(entry.token) < TOKEN_LENGTH_MIN or not entry.token.isascii() or " " in entry.token:
        raise ValueError(f"a token is {TOKEN_LENGTH_MIN} or more ASCII characters without spaces")
    if not entry.user:
        raise ValueError("the user is missing")
    if entry.expires is not None and entry.expires.tzinfo is None:
        raise ValueError("expires needs a time zone, such as 2030-01-01T00:00:00Z")
    tenant = subjects.checked_tenant(entry.tenant)
    groups = tuple(dict.fromkeys((*entry.groups, ALL_AUTHENTICATED)))
    expires = float("inf") if entry.expires is None else entry.expires.timestamp()
    return _Entry(Identity(tenant, entry.user, groups, entry.uid), expires)

"""Static tokens: a file that an operator writes before anything else can vouch for anybody.

YAML or JSON, a list of `{token, user, tenant, groups, uid, expires}`; `expires` is RFC 3339 and may be
left out. The whole file is refused if any entry is wrong. Tokens are kept as digests only.
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


class _Known(Struct, frozen=True):
    identity: Identity
    expires: float


class StaticTokens:
    def __init__(self, known: Mapping[bytes, _Known], clock: Callable[[], float]) -> None:
        self._known = known
        self._clock = clock

    @classmethod
    def open(cls, path: Path, clock: Callable[[], float]) -> "StaticTokens":
        """The file's tokens. Raises KeyFileError."""
        data = keyfiles.read(path)
        if data is None:
            raise KeyFileError(f"there is no token file {path}")
        try:
            entries = msgspec.yaml.decode(data, type=list[StaticToken])
        except msgspec.DecodeError as error:
            raise KeyFileError(f"{path}: {error}") from error
        known: dict[bytes, _Known] = {}
        for index, entry in enumerate(entries):
            try:
                known_entry = _known(entry)
            except ValueError as error:
                raise KeyFileError(f"{path}: entry {index}: {error}") from error
            digest = _digest(entry.token)
            if digest in known:
                raise KeyFileError(f"{path}: entry {index}: the same token is there twice")
            known[digest] = known_entry
        return cls(known, clock)

    def find(self, token: str) -> Identity | None:
        """Whose token it is, None if it is none of these. Raises Unauthorized once it has expired."""
        digest = _digest(token)
        found = self._known.get(digest)
        if found is None:
            return None
        if self._clock() >= found.expires:
            ended = meta.format_time(found.expires)
            raise Unauthorized(f"Unauthorized: the token is refused: it expired at {ended}; get a new one")
        return found.identity


def _digest(token: str) -> bytes:
    """What is compared instead of tokens: how long a look-up takes tells nothing about them."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


def _known(entry: StaticToken) -> _Known:
    if len(entry.token) < TOKEN_LENGTH_MIN or not entry.token.isascii() or " " in entry.token:
        raise ValueError(f"a token is {TOKEN_LENGTH_MIN} or more ASCII characters without spaces")
    if not entry.user:
        raise ValueError("the user is missing")
    if entry.expires is not None and entry.expires.tzinfo is None:
        raise ValueError("expires needs a time zone, such as 2030-01-01T00:00:00Z")
    tenant = subjects.checked_tenant(entry.tenant)
    groups = tuple(dict.fromkeys((*entry.groups, ALL_AUTHENTICATED)))
    expires = float("inf") if entry.expires is None else entry.expires.timestamp()
    return _Known(Identity(tenant, entry.user, groups, entry.uid), expires)

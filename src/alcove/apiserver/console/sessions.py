"""Sessions of the console: a user's token, encrypted by this server, in a cookie that scripts cannot read.

The server keeps nothing of a session that is open, so sessions survive its restart and are valid at every server with
the same keys. What is remembered are the sessions that were ended before their time (`ended.py`). A session gives nothing
that its token does not give: the token is verified with every request, like one that a client sends itself.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable

import msgspec
from msgspec import Struct

from alcove.api.ids import TenantId
from alcove.apiserver.console.ended import EndedSessions
from alcove.apiserver.console.sealing import SealedValues

COOKIE = "__Secure-alcove-console"
SESSION_SECONDS_MAX = 8 * 3600
TOKEN_LENGTH_MAX = 2_800
"""Of a token in a session: browsers keep no cookie of more than 4,096 bytes."""


class Session(Struct, frozen=True):
    id: str
    tenant: TenantId
    token: str
    expires: float

    @property
    def started(self) -> float:
        return self.expires - SESSION_SECONDS_MAX


class ConsoleSessions:
    def __init__(self, key: bytes, clock: Callable[[], float], ended: EndedSessions) -> None:
        self._sealed = SealedValues(key, b"alcove console session")
        self._clock = clock
        self._ended = ended

    def start(self, tenant: TenantId, token: str) -> str:
        """The cookie's value of a new session."""
        session = Session(secrets.token_urlsafe(12), tenant, token, self._clock() + SESSION_SECONDS_MAX)
        return self._sealed.seal(msgspec.json.encode(session))

    def find(self, value: str) -> Session | None:
        """The session of a cookie's value; None if it is forged, has expired, or has ended."""
        content = self._sealed.open(value)
        if content is None:
            return None
        session = msgspec.json.decode(content, type=Session)
        is_over = session.expires <= self._clock() or self._ended.has(
            session.tenant, session.id, session.started
        )
        return None if is_over else session

    def end(self, session: Session) -> None:
        """Ends it, also for whoever has copied the cookie. Raises OSError."""
        self._ended.add(session.tenant, session.id, session.expires)


def set_cookie(value: str, seconds: int = SESSION_SECONDS_MAX) -> tuple[bytes, bytes]:
    """The header that sets the cookie, or with 0 seconds removes it. It is sent to the console's paths only: pods behind
    `/proxy/` never get it."""
    attributes = f"Path=/console/; Max-Age={seconds}; HttpOnly; Secure; SameSite=Strict"
    return b"Set-Cookie", f"{COOKIE}={value}; {attributes}".encode("ascii")

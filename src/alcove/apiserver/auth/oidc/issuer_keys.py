"""An issuer's keys, kept current: fetched when a token needs them, once for all tokens that wait.

unknown      the first token waits for them
current      used as they are; a token with another key has them fetched again, but not soon after the last time
old          used, and fetched again meanwhile
too old      as unknown
failed       nothing is fetched before the back-off has passed
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from msgspec import Struct

from alcove.api.ids import TenantId
from alcove.api.jwt_authenticators import JwtIssuer
from alcove.apiserver.auth.oidc.issuer_client import DiscoveryDocument, IssuerClient, IssuerError
from alcove.apiserver.auth.oidc.jwk_sets import JwkSet, VerificationKey
from alcove.component.tasks import spawn

log = logging.getLogger(__name__)

CURRENT_SECONDS = 600.0
KEPT_SECONDS = 24 * 3600.0
"""How long keys are used of an issuer that cannot be reached."""
AGAIN_SECONDS = 10.0
"""After a fetch, tokens with unknown keys do not cause another one for this time."""
BACKOFF_SECONDS_MIN = 5.0
BACKOFF_SECONDS_MAX = 300.0


class UnknownKey(Exception):
    """The issuer has no such key."""


class FetchCounts:
    """Fetches of all issuers, for metrics."""

    def __init__(self) -> None:
        self.succeeded = 0
        self.failed = 0


class _Fetched(Struct, frozen=True):
    document: DiscoveryDocument
    keys: JwkSet
    time: float


class IssuerKeys:
    """Use it from one event loop only."""

    def __init__(
        self,
        tenant: TenantId,
        issuer: JwtIssuer,
        client: IssuerClient,
        clock: Callable[[], float],
        counts: FetchCounts,
    ) -> None:
        """`clock` is monotonic."""
        self._tenant = tenant
        self._issuer = issuer
        self._client = client
        self._clock = clock
        self._counts = counts
        self._fetched: _Fetched | None = None
        self._fetching: asyncio.Task[None] | None = None
        self._failures = 0
        self._error = IssuerError("")
        self._retry = 0.0

    async def find(self, key_id: str, algorithm: str) -> VerificationKey:
        """The key of a token. Raises UnknownKey, IssuerError."""
        fetched = self._usable()
        key = fetched.keys.find(key_id, algorithm) if fetched is not None else None
        if fetched is None or key is None:
            if fetched is None or self._clock() - fetched.time >= AGAIN_SECONDS:
                fetched = await self._fetch()
            key = fetched.keys.find(key_id, algorithm)
        elif self._clock() - fetched.time >= CURRENT_SECONDS:
            self._start()
        if key is None:
            raise UnknownKey
        return key

    async def document(self) -> DiscoveryDocument:
        """Raises IssuerError."""
        fetched = self._usable() or await self._fetch()
        return fetched.document

    def close(self) -> None:
        if self._fetching is not None:
            self._fetching.cancel()

    def _usable(self) -> _Fetched | None:
        fetched = self._fetched
        return fetched if fetched is not None and self._clock() - fetched.time < KEPT_SECONDS else None

    async def _fetch(self) -> _Fetched:
        before = self._fetched
        self._start()
        if self._fetching is not None:
            # Others wait for it too: one that is cancelled does not cancel it.
            await asyncio.wait((self._fetching,))
        if self._fetched is before:
            raise self._error
        assert self._fetched is not None
        return self._fetched

    def _start(self) -> None:
        """Begins to fetch, unless that is under way or failed a moment ago."""
        if self._fetching is None and self._clock() >= self._retry:
            self._fetching = spawn("keys of an OIDC issuer", self._run())

    async def _run(self) -> None:
        try:
            document = await self._client.discover(self._tenant, self._issuer)
            keys = await self._client.keys(self._tenant, self._issuer, document.jwks_uri)
        except IssuerError as error:
            self._counts.failed += 1
            self._error = error
            wait = min(BACKOFF_SECONDS_MIN * 2 ** min(self._failures, 16), BACKOFF_SECONDS_MAX)
            self._failures += 1
            self._retry = self._clock() + wait
            log.warning(
                "cannot fetch the keys of an OIDC issuer",
                extra={"tenant": self._tenant, "issuer": self._issuer.url, "error": str(error)},
            )
        else:
            self._counts.succeeded += 1
            self._failures = 0
            self._fetched = _Fetched(document, keys, self._clock())
        finally:
            self._fetching = None

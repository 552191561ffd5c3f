"""Keeps one plane's part of a mirror up to date: lists, watches, resumes, and lists again if it must.

       ┌────────── expired (410), refused ─────────┐
       ▼                                            │
    LISTING ── initial events end ──▶ WATCHING ── ended, lost ──▶ RESUMING ──▶ WATCHING
       │                                                             │
       └────── lost, refused ──▶ (exponential backoff) ◀─────────────┘

A list is a watch that begins with all existing objects (`sendInitialEvents`): one request that is read as a
stream, so that only one chunk of it is in memory at a time.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import AsyncIterator, Collection, Iterator
from enum import Enum

from msgspec import Struct

from alcove.api.errors import ApiError, Gone, NotFound, ServiceUnavailable, TooManyRequests
from alcove.api.ids import ALL, SYSTEM, TenantId
from alcove.api.kinds.core.control_planes import is_dedicated
from alcove.api.tenant_shards import TenantShard
from alcove.client.client import Client
from alcove.client.errors import ClientError, MalformedResponse, PlaneTooLarge
from alcove.client.keys import HOME
from alcove.client.mirror import Mirror
from alcove.client.plane_mirror import PlaneMirror
from alcove.client.plane_share import SLICE_SECONDS_MAX, PlaneShare
from alcove.client.resources import TENANTS
from alcove.client.watch_events import Watch, WatchEvent, WatchEventType

log = logging.getLogger(__name__)

WATCH_SECONDS = (1_500, 2_400)
SILENT_SECONDS_MAX = 150.0
"""Bookmarks arrive every minute: a watch without them is considered lost, even if its connection is open."""
CONNECT_SECONDS = 0.01
"""Time that a handshake is counted as, for planes whose time is bounded."""
BACKOFF_SECONDS_MIN = 0.1
BACKOFF_SECONDS_MAX = 30.0


class InformerState(Enum):
    LISTING = "listing"
    WATCHING = "watching"
    RESUMING = "resuming"


class WatchOutcome(Enum):
    """How a watch ended."""

    ENDED = "ended"
    """The server ended it regularly."""
    LOST = "lost"
    EXPIRED = "expired"
    REFUSED = "refused"


class InformerStep(Struct, frozen=True):
    state: InformerState
    waits: bool
    """Whether to back off before the next attempt."""


def following(state: InformerState, outcome: WatchOutcome) -> InformerStep:
    """The next step after a watch ended while in `state`."""
    match outcome:
        case WatchOutcome.EXPIRED:
            # List again immediately, unless the list itself expired.
            return InformerStep(InformerState.LISTING, waits=state is InformerState.LISTING)
        case WatchOutcome.REFUSED:
            return InformerStep(InformerState.LISTING, waits=True)
        case WatchOutcome.ENDED | WatchOutcome.LOST if state is InformerState.LISTING:
            return InformerStep(InformerState.LISTING, waits=True)
        case WatchOutcome.ENDED:
            return InformerStep(InformerState.RESUMING, waits=state is InformerState.RESUMING)
        case WatchOutcome.LOST:
            return InformerStep(InformerState.RESUMING, waits=True)
    raise AssertionError(outcome)


def backoff_seconds(failures: int, chance: float) -> float:
    """The wait after `failures` consecutive failures (from 1); `chance` in 0…1 adds jitter."""
    maximum = min(BACKOFF_SECONDS_MIN * 2.0 ** min(failures - 1, 20), BACKOFF_SECONDS_MAX)
    return maximum * (0.5 + chance / 2)


class Informer:
    """Feeds one plane's part of a mirror; `run` runs until cancelled."""

    def __init__(
        self,
        client: Client,
        mirror: Mirror,
        plane_mirror: PlaneMirror,
        tenant: TenantId = ALL,
        share: PlaneShare | None = None,
        shard: TenantShard | None = None,
    ) -> None:
        """`share` bounds the time that events take. `shard`: of all tenants only these are followed."""
        self._client = client
        self._mirror = mirror
        self._plane_mirror = plane_mirror
        self._tenant = tenant
        self._share = share
        self._shard = shard
        self._failures = 0
        self._moved: Collection[TenantId] = ()
        self.state = InformerState.LISTING

    async def run(self) -> None:
        while True:
            outcome = await self._follow()
            step = following(self.state, outcome)
            self.state = step.state
            if step.waits:
                self._failures += 1
                await asyncio.sleep(backoff_seconds(self._failures, random.random()))

    async def _follow(self) -> WatchOutcome:
        after = None if self.state is InformerState.LISTING else self._plane_mirror.revision
        if after is None:
            self._plane_mirror.begin_list()
        try:
            if self._share is not None:
                await self._share.pause(CONNECT_SECONDS)
            seconds = random.randint(*WATCH_SECONDS)
            async with self._client.watch(
                self._tenant, self._mirror.selection, after=after, seconds_max=seconds, shard=self._shard
            ) as watch:
                await self._apply_all(watch)
                return WatchOutcome.ENDED
        except Gone:
            return WatchOutcome.EXPIRED
        except (ServiceUnavailable, TooManyRequests) as error:
            # It did not look at what was asked for: as a server that is starting, it may well resume the watch later.
            self._log("API server is busy; retrying the watch", error)
            return WatchOutcome.LOST
        except ApiError as error:
            self._log("watch rejected by the API server; retrying", error)
            return WatchOutcome.REFUSED
        except (MalformedResponse, PlaneTooLarge) as error:
            # What was received of it cannot be resumed.
            self._log("watch invalid; listing again", error)
            return WatchOutcome.REFUSED
        except (ClientError, TimeoutError) as error:
            self._log("watch lost; retrying", error)
            return WatchOutcome.LOST

    async def _apply_all(self, watch: Watch) -> None:
        batches = watch.batches()
        while await self._apply_next(batches):
            pass

    async def _apply_next(self, batches: AsyncIterator[Iterator[WatchEvent]]) -> bool:
        """Apply the next batch; False if the watch has ended.

        A call per batch releases the batch's memory before the next one arrives.
        """
        async with asyncio.timeout(SILENT_SECONDS_MAX):
            batch = await anext(batches, None)
        if batch is None:
            return False
        began = time.perf_counter()
        for event in batch:
            if event.happened is WatchEventType.BOOKMARK and event.ends_initial:
                self._moved = await self._find_moved()
            self._apply(event)
            if self._share is not None and time.perf_counter() - began > SLICE_SECONDS_MAX:
                await self._share.pause(time.perf_counter() - began)
                began = time.perf_counter()
        if self._share is not None:
            await self._share.pause(time.perf_counter() - began)
        return True

    async def _find_moved(self) -> set[TenantId]:
        """The tenants whose objects are not on the home plane any more because another API server serves them. Raises
        ApiError and ClientError: without an answer nothing is known to be deleted."""
        moved: set[TenantId] = set()
        if self._plane_mirror.plane != HOME or self._tenant != ALL:
            return moved
        for tenant in self._plane_mirror.vanished() - {SYSTEM}:
            try:
                if is_dedicated(await self._client.get(SYSTEM, TENANTS, tenant)):
                    moved.add(tenant)
            except NotFound:
                continue
        return moved

    def _apply(self, event: WatchEvent) -> None:
        if self.state is InformerState.RESUMING:
            self.state = InformerState.WATCHING
        self._failures = 0
        plane_mirror = self._plane_mirror
        match event.happened:
            case WatchEventType.ADDED | WatchEventType.MODIFIED:
                plane_mirror.put(event.obj, event.revision)
            case WatchEventType.DELETED:
                plane_mirror.remove(event.obj, event.revision)
            case WatchEventType.BOOKMARK if event.ends_initial:
                plane_mirror.end_list(event.revision, self._moved)
                self.state = InformerState.WATCHING
            case WatchEventType.BOOKMARK:
                plane_mirror.advance(event.revision)

    def _log(self, message: str, error: Exception) -> None:
        fields = {"resource": self._mirror.resource, "plane": self._plane_mirror.plane, "error": str(error)}
        log.info(message, extra=fields)

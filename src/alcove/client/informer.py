"""Keeps one plane's part of a mirror up to date: lists, watches, resumes, lists again when it must.

       ┌────────── expired (410), refused ─────────┐
       ▼                                            │
    LISTING ── everything told ──▶ WATCHING ── ended, lost ──▶ RESUMING ──▶ WATCHING
       │                                                          │
       └────── lost, refused ──▶ (waits, longer each time) ◀──────┘

A list is a watch that begins with everything there is (`sendInitialEvents`): one request, read as a
stream, so that memory holds one piece of it at a time.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Iterator
from enum import Enum

from msgspec import Struct

from alcove.api.errors import ApiError, Gone
from alcove.api.ids import ALL, TenantId
from alcove.client.client import Client
from alcove.client.errors import ClientError
from alcove.client.mirror import Mirror
from alcove.client.plane_mirror import PlaneMirror
from alcove.client.watch_events import Watch, WatchEvent, WatchEventType

log = logging.getLogger(__name__)

WATCH_SECONDS = (1_500, 2_400)
SILENT_SECONDS_MAX = 150.0
"""Bookmarks come every minute: a watch without them is dead, whatever its connection says."""
BACKOFF_SECONDS_MIN = 0.1
BACKOFF_SECONDS_MAX = 30.0


class InformerState(Enum):
    LISTING = "listing"
    WATCHING = "watching"
    RESUMING = "resuming"


class WatchOutcome(Enum):
    """How a watch came to its end."""

    ENDED = "ended"
    """By the server, in good order."""
    LOST = "lost"
    EXPIRED = "expired"
    REFUSED = "refused"


class InformerStep(Struct, frozen=True):
    state: InformerState
    waits: bool
    """Before the next attempt, longer each time until one succeeds."""


def following(state: InformerState, outcome: WatchOutcome) -> InformerStep:
    """What to do after a watch ended while in `state`."""
    match outcome:
        case WatchOutcome.EXPIRED:
            # Listing again at once, unless the list itself keeps expiring.
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
    """After so many failures in a row (from 1); `chance` in 0…1 spreads them."""
    whole = min(BACKOFF_SECONDS_MIN * 2.0 ** min(failures - 1, 20), BACKOFF_SECONDS_MAX)
    return whole * (0.5 + chance / 2)


class Informer:
    """`run` until cancelled."""

    def __init__(self, client: Client, mirror: Mirror, part: PlaneMirror, tenant: TenantId = ALL) -> None:
        self._client = client
        self._mirror = mirror
        self._part = part
        self._tenant = tenant
        self._failures = 0
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
        after = None if self.state is InformerState.LISTING else self._part.revision
        if after is None:
            self._part.begin_list()
        try:
            seconds = random.randint(*WATCH_SECONDS)
            async with self._client.watch(
                self._tenant, self._mirror.selection, after=after, seconds_max=seconds
            ) as watch:
                await self._take_all(watch)
                return WatchOutcome.ENDED
        except Gone:
            return WatchOutcome.EXPIRED
        except ApiError as error:
            self._log("watch refused", error)
            return WatchOutcome.REFUSED
        except (ClientError, TimeoutError) as error:
            self._log("watch lost", error)
            return WatchOutcome.LOST

    async def _take_all(self, watch: Watch) -> None:
        batches = watch.batches()
        while await self._take_next(batches):
            pass

    async def _take_next(self, batches: AsyncIterator[Iterator[WatchEvent]]) -> bool:
        """False: there are no more. A call for each: what was taken is not held on to until something follows."""
        async with asyncio.timeout(SILENT_SECONDS_MAX):
            batch = await anext(batches, None)
        if batch is None:
            return False
        for event in batch:
            self._take(event)
        return True

    def _take(self, event: WatchEvent) -> None:
        if self.state is InformerState.RESUMING:
            self.state = InformerState.WATCHING
        self._failures = 0
        part = self._part
        match event.happened:
            case WatchEventType.ADDED | WatchEventType.MODIFIED:
                part.put(event.obj, event.revision)
            case WatchEventType.DELETED:
                part.remove(event.obj, event.revision)
            case WatchEventType.BOOKMARK if event.ends_initial:
                part.end_list(event.revision)
                self.state = InformerState.WATCHING
            case WatchEventType.BOOKMARK:
                part.advance(event.revision)

    def _log(self, message: str, error: Exception) -> None:
        fields = {"resource": self._mirror.resource, "plane": self._part.plane, "error": str(error)}
        log.info(message, extra=fields)

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
from alcove.client.part import Part
from alcove.client.watching import Event, Happened, Watch

log = logging.getLogger(__name__)

WATCH_SECONDS = (1_500, 2_400)
SILENT_SECONDS_MAX = 150.0
"""Bookmarks come every minute: a watch without them is dead, whatever its connection says."""
BACKOFF_SECONDS_MIN = 0.1
BACKOFF_SECONDS_MAX = 30.0


class State(Enum):
    LISTING = "listing"
    WATCHING = "watching"
    RESUMING = "resuming"


class Outcome(Enum):
    """How a watch came to its end."""

    ENDED = "ended"
    """By the server, in good order."""
    LOST = "lost"
    EXPIRED = "expired"
    REFUSED = "refused"


class Step(Struct, frozen=True):
    state: State
    waits: bool
    """Before the next attempt, longer each time until one succeeds."""


def following(state: State, outcome: Outcome) -> Step:
    """What to do after a watch ended while in `state`."""
    match outcome:
        case Outcome.EXPIRED:
            # Listing again at once, unless the list itself keeps expiring.
            return Step(State.LISTING, waits=state is State.LISTING)
        case Outcome.REFUSED:
            return Step(State.LISTING, waits=True)
        case Outcome.ENDED | Outcome.LOST if state is State.LISTING:
            return Step(State.LISTING, waits=True)
        case Outcome.ENDED:
            return Step(State.RESUMING, waits=state is State.RESUMING)
        case Outcome.LOST:
            return Step(State.RESUMING, waits=True)
    raise AssertionError(outcome)


def backoff_seconds(failures: int, chance: float) -> float:
    """After so many failures in a row (from 1); `chance` in 0…1 spreads them."""
    whole = min(BACKOFF_SECONDS_MIN * 2.0 ** min(failures - 1, 20), BACKOFF_SECONDS_MAX)
    return whole * (0.5 + chance / 2)


class Informer:
    """`run` until cancelled."""

    def __init__(self, client: Client, mirror: Mirror, part: Part, tenant: TenantId = ALL) -> None:
        self._client = client
        self._mirror = mirror
        self._part = part
        self._tenant = tenant
        self._failures = 0
        self.state = State.LISTING

    async def run(self) -> None:
        while True:
            outcome = await self._follow()
            step = following(self.state, outcome)
            self.state = step.state
            if step.waits:
                self._failures += 1
                await asyncio.sleep(backoff_seconds(self._failures, random.random()))

    async def _follow(self) -> Outcome:
        after = None if self.state is State.LISTING else self._part.revision
        if after is None:
            self._part.begin_list()
        try:
            seconds = random.randint(*WATCH_SECONDS)
            async with self._client.watch(
                self._tenant, self._mirror.selection, after=after, seconds_max=seconds
            ) as watch:
                await self._take_all(watch)
                return Outcome.ENDED
        except Gone:
            return Outcome.EXPIRED
        except ApiError as error:
            self._log("watch refused", error)
            return Outcome.REFUSED
        except (ClientError, TimeoutError) as error:
            self._log("watch lost", error)
            return Outcome.LOST

    async def _take_all(self, watch: Watch) -> None:
        batches = watch.batches()
        while await self._take_next(batches):
            pass

    async def _take_next(self, batches: AsyncIterator[Iterator[Event]]) -> bool:
        """False: there are no more. A call for each: what was taken is not held on to until something follows."""
        async with asyncio.timeout(SILENT_SECONDS_MAX):
            batch = await anext(batches, None)
        if batch is None:
            return False
        for event in batch:
            self._take(event)
        return True

    def _take(self, event: Event) -> None:
        if self.state is State.RESUMING:
            self.state = State.WATCHING
        self._failures = 0
        part = self._part
        match event.happened:
            case Happened.ADDED | Happened.MODIFIED:
                part.put(event.obj, event.revision)
            case Happened.DELETED:
                part.remove(event.obj, event.revision)
            case Happened.BOOKMARK if event.ends_initial:
                part.end_list(event.revision)
                self.state = State.WATCHING
            case Happened.BOOKMARK:
                part.advance(event.revision)

    def _log(self, message: str, error: Exception) -> None:
        fields = {"resource": self._mirror.resource, "plane": self._part.plane, "error": str(error)}
        log.info(message, extra=fields)

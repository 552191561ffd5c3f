"""Leader election by a Lease, with fencing: at most one of several processes writes at any time.

    STANDBY ── the lease is free, released, or not renewed for its whole duration ──▶ LEADING
    LEADING ── not renewed within the deadline ──▶ PAUSED ── renewed ──▶ LEADING
    LEADING, PAUSED ── taken by another, released, deleted, or paused for too long ──▶ STANDBY

The expiry of a lease is measured by this process' own clock, from when it last observed the lease change:
clocks of different machines need not agree. The leader stops writing `deadline` seconds after its last
renewal began, well before another process may take the lease: `check` is called before every write and raises
from that moment on. A process can be paused between any two steps, so the server rejects late writes: every
write carries the `fence`. Each term has its own identity, so that a write of one term is rejected in the
next, even if the process is the same. A released lease can be taken immediately.

While the server does not answer, nobody can take the lease. A leader that could not renew it therefore only pauses: it does
not write, and keeps what it has read. If the lease is still its own when the server answers again, nobody led meanwhile,
and the term continues; others do not count the time in which they could not see the lease.

Another process can ask for a lease, by `spec.preferredHolder`: a leader that agrees ends its work, then releases it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from itertools import count

from msgspec import Struct, field, structs

from alcove.api import meta, objects
from alcove.api.errors import AlreadyExists, ApiError, Conflict, NotFound
from alcove.api.ids import SYSTEM
from alcove.api.objects import Object
from alcove.client.client import Client
from alcove.client.errors import ClientError, NotPermitted
from alcove.client.resources import LEASES
from alcove.component import tasks

log = logging.getLogger(__name__)

NAMESPACE = "kube-system"
WRITES_MAX = 3
"""Attempts to renew a lease that others write to without taking it."""
PAUSED_SECONDS_MAX = 300.0
"""Longer than this no history is kept for watches to resume from: everything has to be read again anyway."""


class LeaderTiming(Struct, frozen=True, kw_only=True):
    lease_seconds: float = 15.0
    deadline_seconds: float = 10.0
    renew_seconds: float = 2.0

    @classmethod
    def of(cls, lease_seconds: float) -> LeaderTiming:
        """Derive the other times: several renewals before the deadline, and a third of the lease after
        it."""
        return cls(
            lease_seconds=lease_seconds,
            deadline_seconds=lease_seconds * 2 / 3,
            renew_seconds=lease_seconds / 7,
        )


class ObservedLease(Struct, frozen=True):
    """The last observed change of the lease, and its time by this process' clock."""

    holder: str
    revision: str
    at: float
    lease_seconds: float


def may_take(lease: Object, observed: ObservedLease | None, process: str, now: float) -> bool:
    """Whether this process may take the lease that was just read. `observed` is the last observed change."""
    holder = objects.get(lease, "spec", "holderIdentity", default="")
    if not holder or holder.rpartition("_")[0] == process:
        return True
    if observed is None or observed.revision != lease["metadata"]["resourceVersion"]:
        return False
    return now - observed.at >= observed.lease_seconds


class LeasePolicy(Struct, frozen=True):
    """What a process that may hold several leases decides for each of them."""

    takes: Callable[[Object | None], bool] = lambda _lease: True
    """Whether to take a lease that may be taken; None if it does not exist."""
    leaves: Callable[[str], bool] = lambda _preferred: False
    """Whether to release the lease for the process that has asked for it."""
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while a lease is being taken: `takes` knows what this process holds."""
    terms: Iterator[int] = field(default_factory=lambda: count(1))
    """Numbers of terms; no two leases of a process have the same."""


class LeaderElector:
    """`process` must be unique to this process: a restarted process has another name."""

    def __init__(
        self,
        client: Client,
        name: str,
        process: str,
        clock: Callable[[], float],
        timing: LeaderTiming | None = None,
        *,
        policy: LeasePolicy | None = None,
        plane_lease: str = "",
    ) -> None:
        """`plane_lease`: the name of the fence on other planes than the home plane; by default that of the lease."""
        self._client = client
        self._name = name
        self._process = process
        self._policy = policy or LeasePolicy()
        self._plane_lease = plane_lease or name
        self._term = 0
        self._clock = clock
        self._timing = timing or LeaderTiming()
        self._lease: Object | None = None
        self._observed: ObservedLease | None = None
        self._valid_until = float("-inf")
        self._is_in_term = False
        """Whether the lease was this term's when it was last seen: it is leading, or paused."""
        self._is_paused = False
        self._tried_at = float("-inf")
        self._renew_now = asyncio.Event()
        self._tried = asyncio.Condition()
        self._tries = 0
        self._held_at_try = 0
        """The last attempt at which the server confirmed that this process holds the lease."""

    @property
    def _identity(self) -> str:
        return f"{self._process}_{self._term}"

    @property
    def fence(self) -> str:
        """LEASE/HOLDER, sent with every write: the server rejects the write if another process holds the
        lease."""
        return f"{self._name}/{self._identity}"

    @property
    def plane_fence(self) -> str:
        """The same for other planes (`fencing`)."""
        return f"{self._plane_lease}/{self._identity}"

    @property
    def is_leading(self) -> bool:
        return _now() < self._valid_until

    def check(self) -> None:
        """Raise NotPermitted if another process could be leading."""
        if not self.is_leading:
            raise NotPermitted(f"{self._identity} does not hold the lease {self._name}")

    async def confirm(self) -> None:
        """Return once the server has confirmed, after this call, that this process holds the lease.

        Raises NotPermitted.
        """
        before = self._tries
        self._renew_now.set()
        async with self._tried:
            await self._tried.wait_for(lambda: self._held_at_try > before or not self.is_leading)
        self.check()

    @asynccontextmanager
    async def leading(self) -> AsyncIterator[asyncio.Event]:
        """Wait for the lease and hold it for the block, then release it. The event is set if the lease is
        lost. Before that, `check` may raise for a while: until the server answers again."""
        self._term = next(self._policy.terms)
        self._is_in_term = self._is_paused = False
        while not await self._take():  # noqa: ASYNC110 - nothing tells when the lease is free
            await asyncio.sleep(self._timing.renew_seconds)
        log.info("became leader", extra={"lease": self._name, "identity": self._identity})
        lost = asyncio.Event()
        renewing = tasks.spawn(f"lease {self._name}", self._renew(lost))
        try:
            yield lost
        finally:
            self._is_in_term = False
            renewing.cancel()
            await asyncio.wait([renewing])
            await self._release()

    async def _take(self) -> bool:
        async with self._policy.turn:
            return await self._try() is True

    async def _renew(self, lost: asyncio.Event) -> None:
        try:
            while await self._renew_next():
                async with self._tried:
                    self._tried.notify_all()
                if self._is_asked_to_leave():
                    log.info("giving lease up", extra={"lease": self._name, "identity": self._identity})
                    lost.set()
                    return  # It is still held: it is released when the work has ended.
        except Exception:
            # A process that cannot renew must stop leading; otherwise it would neither work nor try again.
            log.exception("failed to renew lease", extra={"lease": self._name, "identity": self._identity})
        self._valid_until = float("-inf")
        self._is_in_term = False
        log.warning("lost leadership", extra={"lease": self._name, "identity": self._identity})
        async with self._tried:
            self._tried.notify_all()
        lost.set()

    async def _renew_next(self) -> bool:
        """Renew at the next interval, or sooner on request; False if the lease is lost."""
        try:
            async with asyncio.timeout(self._timing.renew_seconds):
                await self._renew_now.wait()
        except TimeoutError:
            pass
        self._renew_now.clear()
        until = self._valid_until if self.is_leading else _now() + self._timing.deadline_seconds
        try:
            async with asyncio.timeout_at(until):
                held = await self._try()
        except TimeoutError:
            held = None
        fields = {"lease": self._name, "identity": self._identity}
        if held is None and not self.is_leading and not self._is_paused:
            self._is_paused = True
            log.warning("failed to renew lease in time; writing nothing until it is renewed", extra=fields)
        elif held and self._is_paused:
            self._is_paused = False
            log.info("renewed lease; continuing", extra=fields)
        return _now() < self._valid_until + PAUSED_SECONDS_MAX if held is None else held

    async def _try(self) -> bool | None:
        """Take or renew the lease; False if another process holds it, None if the server does not answer."""
        started = _now()
        self._tries += 1
        try:
            held = await self._write()
        except (ApiError, ClientError) as error:
            log.info("failed to reach lease; retrying", extra={"lease": self._name, "error": str(error)})
            if self._observed is not None:
                # Whoever holds it could not renew it either.
                unseen = _now() - self._tried_at
                self._observed = structs.replace(self._observed, at=self._observed.at + unseen)
            return None
        finally:
            self._tried_at = _now()
        if held:
            self._valid_until = started + self._timing.deadline_seconds
            self._held_at_try = self._tries
            self._is_in_term = True
        return held

    def _is_asked_to_leave(self) -> bool:
        preferred = objects.get(self._lease or {}, "spec", "preferredHolder", default="")
        return bool(preferred) and preferred != self._process and self._policy.leaves(preferred)

    async def _write(self) -> bool:
        for _ in range(WRITES_MAX):
            try:
                return await self._write_once()
            except Conflict:
                # Another process wrote the lease meanwhile: read it again. It may only have asked for it.
                self._lease = None
                if not self._is_in_term:
                    return False
        return False

    async def _write_once(self) -> bool:
        """Raises Conflict."""
        try:
            if self._lease is None:
                self._lease = await self._client.get(SYSTEM, LEASES, self._name, namespace=NAMESPACE)
            if not self._may_write(self._lease):
                self._observe(self._lease)
                self._lease = None
                return False
            desired = renewed(self._lease, self._identity, self._timing, self._clock())
            self._lease = await self._client.update(SYSTEM, LEASES, desired)
        except NotFound:
            # A lease that was deleted while it was held is not made again: its fence may have ended.
            if self._is_in_term or not self._policy.takes(None):
                return False
            desired = renewed(_empty(self._name), self._identity, self._timing, self._clock())
            try:
                self._lease = await self._client.create(SYSTEM, LEASES, desired)
            except (AlreadyExists, NotFound):
                return False
        return True

    def _may_write(self, lease: Object) -> bool:
        if self._is_in_term:
            return bool(objects.get(lease, "spec", "holderIdentity") == self._identity)
        return may_take(lease, self._observed, self._process, _now()) and self._policy.takes(lease)

    def _observe(self, lease: Object) -> None:
        revision = lease["metadata"]["resourceVersion"]
        if self._observed is None or self._observed.revision != revision:
            spec = lease.get("spec") or {}
            seconds = float(spec.get("leaseDurationSeconds") or self._timing.lease_seconds)
            self._observed = ObservedLease(spec.get("holderIdentity", ""), revision, _now(), seconds)

    async def _release(self) -> None:
        was_leading, self._valid_until = self.is_leading, float("-inf")
        lease, self._lease = self._lease, None
        if lease is None or not was_leading:
            return
        lease["spec"] = {**lease["spec"], "holderIdentity": "", "leaseDurationSeconds": 1}
        try:
            async with asyncio.timeout(self._timing.renew_seconds):
                await self._client.update(SYSTEM, LEASES, lease)
        except (ApiError, ClientError, TimeoutError) as error:
            log.info("failed to release lease", extra={"lease": self._name, "error": str(error)})


def renewed(lease: Object, identity: str, timing: LeaderTiming, now: float) -> Object:
    """The lease with the holder's identity and renewal time."""
    spec = dict(lease.get("spec") or {})
    time = meta.format_micro_time(now)
    if spec.get("holderIdentity") != identity:
        spec["acquireTime"] = time
        spec["leaseTransitions"] = spec.get("leaseTransitions", -1) + 1
        for request in ("preferredHolder", "strategy"):
            spec.pop(request, None)
    spec |= {
        "holderIdentity": identity,
        "renewTime": time,
        "leaseDurationSeconds": max(1, int(timing.lease_seconds)),
    }
    return {**lease, "spec": spec}


def _empty(name: str) -> Object:
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": NAMESPACE},
    }


def _now() -> float:
    return asyncio.get_running_loop().time()

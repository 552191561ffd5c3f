"""Leader election by a Lease, with fencing: of several processes one works, and only while it surely leads.

    STANDBY ── the lease is free, released, or not renewed for its whole duration ──▶ LEADING
    LEADING ── not renewed within the deadline, or taken by another ──▶ STANDBY

Whether a lease has run out is measured by this process' own clock, from when it saw the lease change
last: clocks of different machines need not agree. The leader stops writing `deadline` after its last
renewal began, well before anybody else may take the lease: `check` is asked before every write and
raises from that moment on. What slips through, for a process can be paused between any two steps, the
server refuses: every write carries the `fence`. Each term has a name of its own, so that what was sent in
one is refused in the next, be it of the same process. A lease given up in good order is taken at once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from msgspec import Struct

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


class LeaderTiming(Struct, frozen=True, kw_only=True):
    lease_seconds: float = 15.0
    deadline_seconds: float = 10.0
    renew_seconds: float = 2.0

    @classmethod
    def of(cls, lease_seconds: float) -> LeaderTiming:
        """The other times follow: three tries before the deadline, a third of the lease after it."""
        return cls(
            lease_seconds=lease_seconds,
            deadline_seconds=lease_seconds * 2 / 3,
            renew_seconds=lease_seconds / 7,
        )


class ObservedLease(Struct, frozen=True):
    """The lease as it was last seen to change, and when, by our own clock."""

    holder: str
    revision: str
    at: float
    lease_seconds: float


def may_take(lease: Object, seen: ObservedLease | None, process: str, now: float) -> bool:
    """Whether the lease, as just read, is free for us. `seen` is what was seen before."""
    holder = objects.get(lease, "spec", "holderIdentity", default="")
    if not holder or holder.rpartition("_")[0] == process:
        return True
    if seen is None or seen.revision != lease["metadata"]["resourceVersion"]:
        return False
    return now - seen.at >= seen.lease_seconds


class LeaderElector:
    """`process` is the name of this process alone: a restarted one has another."""

    def __init__(
        self,
        client: Client,
        name: str,
        process: str,
        clock: Callable[[], float],
        timing: LeaderTiming | None = None,
    ) -> None:
        self._client = client
        self._name = name
        self._process = process
        self._term = 0
        self._clock = clock
        self._timing = timing or LeaderTiming()
        self._lease: Object | None = None
        self._seen: ObservedLease | None = None
        self._valid_until = float("-inf")
        self._hurry = asyncio.Event()
        self._tried = asyncio.Condition()
        self._tries = 0
        self._held_at_try = 0
        """The newest try at which the server said that the lease is ours."""

    @property
    def _identity(self) -> str:
        return f"{self._process}_{self._term}"

    @property
    def fence(self) -> str:
        """What the server is told with every write, to refuse it when another holds the lease."""
        return f"{self._name}/{self._identity}"

    @property
    def is_leading(self) -> bool:
        return _now() < self._valid_until

    def check(self) -> None:
        """Raises NotPermitted from the moment on that another process could be leading."""
        if not self.is_leading:
            raise NotPermitted(f"{self._identity} does not hold the lease {self._name}")

    async def confirm(self) -> None:
        """Returns once the server has said, after this was called, that the lease is ours. Raises NotPermitted."""
        before = self._tries
        self._hurry.set()
        async with self._tried:
            await self._tried.wait_for(lambda: self._held_at_try > before or not self.is_leading)
        self.check()

    @asynccontextmanager
    async def leading(self) -> AsyncIterator[asyncio.Event]:
        """Waits for the lease and holds it for the block; the event is set when it is lost. Gives it up after."""
        self._term += 1
        while True:
            if await self._try():
                break
            await asyncio.sleep(self._timing.renew_seconds)
        log.info("leading", extra={"lease": self._name, "identity": self._identity})
        lost = asyncio.Event()
        renewing = tasks.spawn(f"lease {self._name}", self._renew(lost))
        try:
            yield lost
        finally:
            renewing.cancel()
            await asyncio.wait([renewing])
            await self._release()

    async def _renew(self, lost: asyncio.Event) -> None:
        try:
            while self.is_leading and await self._keep():
                async with self._tried:
                    self._tried.notify_all()
        except Exception:
            # Who cannot renew does not lead; left unsaid, the process would neither work nor try again.
            log.exception("failed to renew lease", extra={"lease": self._name, "identity": self._identity})
        self._valid_until = float("-inf")
        log.warning("no longer leading", extra={"lease": self._name, "identity": self._identity})
        async with self._tried:
            self._tried.notify_all()
        lost.set()

    async def _keep(self) -> bool:
        """Renews when it is time, or sooner when asked to. False: the lease is lost."""
        try:
            async with asyncio.timeout(self._timing.renew_seconds):
                await self._hurry.wait()
        except TimeoutError:
            pass
        self._hurry.clear()
        try:
            async with asyncio.timeout_at(self._valid_until):
                return await self._try()
        except TimeoutError:
            return False

    async def _try(self) -> bool:
        """Takes or renews the lease; False: another holds it. A server that does not answer is no answer."""
        started = _now()
        self._tries += 1
        try:
            held = await self._write()
        except (ApiError, ClientError) as error:
            log.info("lease not reached", extra={"lease": self._name, "error": str(error)})
            return started < self._valid_until
        if held:
            self._valid_until = started + self._timing.deadline_seconds
            self._held_at_try = self._tries
        return held

    async def _write(self) -> bool:
        try:
            if self._lease is None:
                self._lease = await self._client.get(SYSTEM, LEASES, self._name, namespace=NAMESPACE)
            if not may_take(self._lease, self._seen, self._process, _now()):
                self._notice(self._lease)
                self._lease = None
                return False
            wanted = renewed(self._lease, self._identity, self._timing, self._clock())
            self._lease = await self._client.update(SYSTEM, LEASES, wanted)
        except NotFound:
            wanted = renewed(_empty(self._name), self._identity, self._timing, self._clock())
            try:
                self._lease = await self._client.create(SYSTEM, LEASES, wanted)
            except (AlreadyExists, NotFound):
                return False
        except Conflict:
            # Somebody wrote it since: look again before believing anything.
            self._lease = None
            return False
        return True

    def _notice(self, lease: Object) -> None:
        revision = lease["metadata"]["resourceVersion"]
        if self._seen is None or self._seen.revision != revision:
            spec = lease.get("spec") or {}
            seconds = float(spec.get("leaseDurationSeconds") or self._timing.lease_seconds)
            self._seen = ObservedLease(spec.get("holderIdentity", ""), revision, _now(), seconds)

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
            log.info("lease not released", extra={"lease": self._name, "error": str(error)})


def renewed(lease: Object, identity: str, timing: LeaderTiming, now: float) -> Object:
    """The lease as its holder writes it."""
    spec = dict(lease.get("spec") or {})
    time = meta.format_micro_time(now)
    if spec.get("holderIdentity") != identity:
        spec["acquireTime"] = time
        spec["leaseTransitions"] = spec.get("leaseTransitions", -1) + 1
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

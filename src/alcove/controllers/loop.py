"""The loop around a reconciler: takes keys in fair turns, calls it, and decides what becomes of each.

Retries are decided in one place, `verdict`; nothing else in the controllers knows of them.

| the reconciler            | the key                                   | the tenant sees         |
|---------------------------|-------------------------------------------|-------------------------|
| returns                   | is forgotten, or looked at again in time  |                         |
| is outdated (409, behind) | is tried again soon                       |                         |
| makes something where the server knows no namespace or tenant | is tried again soon |           |
| cannot reach the server, or told the tenant itself | is tried again, later each time |         |
| raises anything else      | is tried again, later each time           | a warning on the object |
| works for a plane that left, or without the lease | is forgotten      |                         |
| makes something where a namespace or tenant ends  | is forgotten      |                         |
"""

from __future__ import annotations

import asyncio
import logging
from enum import Enum

from alcove.api.errors import (
    ApiError,
    Conflict,
    Forbidden,
    Gone,
    NotFound,
    ServiceUnavailable,
    Timeout,
    TooManyRequests,
)
from alcove.api.objects import Object
from alcove.client.changes import ChangeType, ObjectChange, Subscriber
from alcove.client.errors import NotPermitted, PlaneLeft, ServerBehind, Unreachable
from alcove.client.keys import ObjectKey, TenantKey
from alcove.client.mirror import Mirror
from alcove.component import request_ids
from alcove.component.tasks import BackgroundTasks
from alcove.controllers.controller import Controller, Keys, Result, ServerRefusal
from alcove.controllers.metrics import LoopMetrics
from alcove.controllers.queue import QueueItem, WorkQueue
from alcove.controllers.terminating import is_place_missing, is_terminating

log = logging.getLogger(__name__)

RECONCILE_SECONDS_MAX = 120.0
FAILED_REASON = "ReconcileFailed"


class ReconcileOutcome(Enum):
    DONE = "done"
    LATER = "later"
    """Went well; to be looked at again at a time of its own."""
    OUTDATED = "outdated"
    AWAY = "away"
    """The server did not answer."""
    FAILED = "failed"
    DROPPED = "dropped"


def verdict(outcome: Result | Exception) -> ReconcileOutcome:
    match outcome:
        case Result(after_seconds=None):
            return ReconcileOutcome.DONE
        case Result():
            return ReconcileOutcome.LATER
        case Conflict() | ServerBehind():
            return ReconcileOutcome.OUTDATED
        case NotFound() if is_place_missing(outcome):
            return ReconcileOutcome.OUTDATED
        case Unreachable() | TooManyRequests() | ServiceUnavailable() | Timeout() | Gone() | ServerRefusal():
            return ReconcileOutcome.AWAY
        case PlaneLeft() | NotPermitted():
            return ReconcileOutcome.DROPPED
        case Forbidden() if is_terminating(outcome):
            return ReconcileOutcome.DROPPED
        case Exception():
            return ReconcileOutcome.FAILED


def tenant_message(controller: str, error: Exception) -> str:
    """What the tenant is told. The server's own refusals are about its objects; of anything else only the
    kind is said, for the text could be about somebody else's."""
    if isinstance(error, ApiError):
        return error.message
    if isinstance(error, TimeoutError):
        return f"the {controller} controller did not finish within {RECONCILE_SECONDS_MAX:.0f} s"
    return f"the {controller} controller cannot handle this object ({type(error).__name__})"


class ControllerLoop:
    """`run` until cancelled. The planes' mirrors must be synced before."""

    def __init__(self, controller: Controller, metrics: LoopMetrics) -> None:
        self.controller = controller
        self.metrics = metrics
        workers = controller.workers
        self.queue = WorkQueue(in_hand_per_tenant_max=max(1, workers * 3 // 4), refill=self._refill)
        metrics.queue = self.queue

    async def run(self) -> None:
        for source in self.controller.sources:
            source.subscribe(_Adder(self.queue, source.keys))
        try:
            async with BackgroundTasks() as tasks:
                tasks.restart(f"controller {self.controller.name} background", self.controller.background)
                await self._hand_out(tasks)
        finally:
            self.queue.close()

    async def _hand_out(self, tasks: asyncio.TaskGroup) -> None:
        """A task for each key, and none that waits for keys: hundreds of idle workers are memory of their own, and
        hold on to the places in it where a burst once was."""
        hands = asyncio.Semaphore(self.controller.workers)
        while True:
            await hands.acquire()
            taken = await self.queue.take()
            tasks.create_task(self._work(taken, hands), name=self.controller.name)

    async def _work(self, taken: QueueItem, hands: asyncio.Semaphore) -> None:
        # In the key's own task: whatever it logs and writes carries the id.
        request_ids.current.set(request_ids.new())
        try:
            await self._turn(taken)
        finally:
            self.queue.done(taken.key)
            hands.release()

    async def _turn(self, taken: QueueItem) -> None:
        loop = asyncio.get_running_loop()
        started = loop.time()
        outcome = await self._attempt(taken.key)
        decided = verdict(outcome)
        self.metrics.observe(decided.value, taken.waited_seconds, loop.time() - started)
        self._settle(taken.key, decided, outcome)

    async def _attempt(self, key: ObjectKey) -> Result | Exception:
        try:
            async with asyncio.timeout(RECONCILE_SECONDS_MAX):
                await self.controller.fresh(key)
                return await self.controller.reconcile(key)
        except Exception as error:
            return error

    def _settle(self, key: ObjectKey, decided: ReconcileOutcome, outcome: Result | Exception) -> None:
        match decided:
            case ReconcileOutcome.DONE | ReconcileOutcome.DROPPED:
                self.queue.forget(key)
            case ReconcileOutcome.LATER:
                assert isinstance(outcome, Result) and outcome.after_seconds is not None
                self.queue.forget(key)
                self.queue.add_after(key, outcome.after_seconds)
            case ReconcileOutcome.OUTDATED | ReconcileOutcome.AWAY:
                self.queue.add_failed(key)
            case ReconcileOutcome.FAILED:
                assert isinstance(outcome, Exception)
                self._report(key, outcome)
                self.queue.add_failed(key)

    def _report(self, key: ObjectKey, error: Exception) -> None:
        name = self.controller.name
        fields = {"controller": name, "key": str(key), "error": str(error)}
        if isinstance(error, ApiError):
            log.warning("reconcile refused", extra=fields)
        else:
            log.error("reconcile failed", extra=fields, exc_info=error)
        self.controller.events.warning(
            key.plane, self._object(key), FAILED_REASON, tenant_message(name, error)
        )

    def _object(self, key: ObjectKey) -> Object:
        """The key's object, for an event: as the mirror has it, or just named."""
        resource = self.controller.resource
        for mirror in self.controller.reads:
            if mirror.selection.resource == resource and (obj := mirror.get(key)) is not None:
                return {**obj, "apiVersion": resource.api_version, "kind": resource.kind}
        metadata = {"tenant": key.tenant, "name": key.name, "namespace": key.namespace}
        return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}

    def _refill(self, tenant_key: TenantKey) -> None:
        """What overflowed is asked for anew: all that the mirrors have of the tenant."""
        for source in self.controller.sources:
            if source.mirror is not None:
                _tell_again(source.mirror, tenant_key, _Adder(self.queue, source.keys))


def _tell_again(mirror: Mirror, tenant_key: TenantKey, adder: Subscriber) -> None:
    for key in mirror.keys(tenant_key.plane, tenant_key.tenant):
        if (obj := mirror.get(key)) is not None:
            adder(ObjectChange(ChangeType.ADDED, key, obj))


class _Adder:
    """A mirror's subscriber that queues whom a change concerns."""

    __slots__ = ("_keys", "_queue")

    def __init__(self, queue: WorkQueue, keys: Keys) -> None:
        self._queue = queue
        self._keys = keys

    def __call__(self, change: ObjectChange) -> None:
        for key in self._keys(change):
            self._queue.add(key)

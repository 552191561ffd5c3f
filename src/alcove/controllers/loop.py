"""The controller loop: takes keys from the fair queue, calls `reconcile`, and decides about retries.

Retries are decided in one place, `decide`; no controller handles them itself. Backoff begins at
milliseconds and doubles with each failure in a row.

| `reconcile`                                              | the key                          | event   |
|----------------------------------------------------------|----------------------------------|---------|
| returns                                                  | done, or enqueued after a delay  |         |
| had outdated state (409, server behind)                  | retried with backoff             |         |
| creates in a namespace or tenant unknown to the server   | retried with backoff             |         |
| cannot reach the server, or recorded an event itself     | retried with backoff             |         |
| raises anything else                                     | retried with backoff             | Warning |
| works for a plane that left, or without the lease        | dropped                          |         |
| creates in a terminating namespace or tenant             | dropped                          |         |
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
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
from alcove.component.log_limit import LogLimit
from alcove.component.tasks import BackgroundTasks
from alcove.controllers.controller import (
    RECONCILE_SECONDS_MAX,
    Controller,
    Keys,
    Result,
    ServerRefusal,
    WatchSource,
)
from alcove.controllers.metadata_cache import Subscription
from alcove.controllers.metrics import LoopMetrics
from alcove.controllers.queue import QueueItem, WorkQueue
from alcove.controllers.terminating import is_namespace_or_tenant_missing, is_terminating

log = logging.getLogger(__name__)

PLANE_WORKERS = 2
"""Keys of one dedicated plane that a controller works on at the same time, beside the others."""
FAILED_REASON = "ReconcileFailed"


class ReconcileOutcome(Enum):
    DONE = "done"
    LATER = "later"
    """Succeeded; reconcile again after the returned delay."""
    OUTDATED = "outdated"
    AWAY = "away"
    """The server was unavailable, or the controller has already reported the error."""
    FAILED = "failed"
    DROPPED = "dropped"


def decide(outcome: Result | Exception) -> ReconcileOutcome:
    match outcome:
        case Result(after_seconds=None):
            return ReconcileOutcome.DONE
        case Result():
            return ReconcileOutcome.LATER
        case Conflict() | ServerBehind():
            return ReconcileOutcome.OUTDATED
        case NotFound() if is_namespace_or_tenant_missing(outcome):
            return ReconcileOutcome.OUTDATED
        case Unreachable() | TooManyRequests() | ServiceUnavailable() | Timeout() | Gone() | ServerRefusal():
            return ReconcileOutcome.AWAY
        case NotPermitted():
            # The lease may be renewed, and the term go on; if it is lost, this loop is cancelled.
            return ReconcileOutcome.AWAY
        case PlaneLeft():
            return ReconcileOutcome.DROPPED
        case Forbidden() if is_terminating(outcome):
            return ReconcileOutcome.DROPPED
        case Exception():
            return ReconcileOutcome.FAILED


def tenant_message(controller: str, error: Exception, seconds_max: float = RECONCILE_SECONDS_MAX) -> str:
    """The event message for the tenant. API errors are about the tenant's objects and are shown in full; of
    other errors only the type is shown, because their text could contain another tenant's data."""
    if isinstance(error, ApiError):
        return error.message
    if isinstance(error, TimeoutError):
        return f"the {controller} controller did not finish within {seconds_max:.0f} s"
    return f"the {controller} controller cannot handle this object ({type(error).__name__})"


class ControllerLoop:
    """`run` runs until cancelled. The planes' mirrors must be synced before, and the loop subscribed (`subscribe`)."""

    def __init__(self, controller: Controller, metrics: LoopMetrics) -> None:
        self.controller = controller
        self.metrics = metrics
        self._log_limit = LogLimit()
        workers = controller.workers
        self.queue = WorkQueue(
            workers=workers,
            processing_per_tenant_max=max(1, workers * 3 // 4),
            processing_per_plane_max=min(workers, PLANE_WORKERS),
            refill=self._refill,
        )
        metrics.queue = self.queue

    def subscriptions(self) -> Iterable[Subscription]:
        for source in self.controller.sources:
            yield from source.subscriptions(self._enqueuer(source))

    async def run(self) -> None:
        try:
            async with BackgroundTasks() as tasks:
                tasks.restart(f"controller {self.controller.name} background", self.controller.background)
                await self._dispatch(tasks)
        finally:
            self.queue.close()

    async def _dispatch(self, tasks: asyncio.TaskGroup) -> None:
        """Starts a task per key instead of keeping idle workers: hundreds of idle tasks cost memory and keep
        the heap fragmented after a burst."""
        while True:
            item = await self.queue.take()
            tasks.create_task(self._work(item), name=self.controller.name)

    async def _work(self, item: QueueItem) -> None:
        # Set in the key's task, so that its log lines and requests carry the id.
        request_ids.current.set(request_ids.new())
        try:
            await self._process(item)
        finally:
            self.queue.done(item.key)

    async def _process(self, item: QueueItem) -> None:
        loop = asyncio.get_running_loop()
        started = loop.time()
        outcome = await self._attempt_within_share(item.key)
        decision = decide(outcome)
        self.metrics.observe(decision.value, item.waited_seconds, loop.time() - started)
        self._settle(item.key, decision, outcome)

    async def _attempt_within_share(self, key: ObjectKey) -> Result | Exception:
        share = self.controller.context.planes.share(key.plane)
        return await (self._attempt(key) if share is None else share.run(self._attempt(key)))

    async def _attempt(self, key: ObjectKey) -> Result | Exception:
        try:
            async with asyncio.timeout(self.controller.reconcile_seconds_max):
                await self.controller.wait_for_mirrors(key)
                return await self.controller.reconcile(key)
        except Exception as error:
            return error

    def _settle(self, key: ObjectKey, decision: ReconcileOutcome, outcome: Result | Exception) -> None:
        match decision:
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
        if not self._log_limit.allows(key.tenant_key):
            pass  # The same tenant's failures are in the log already.
        elif isinstance(error, ApiError):
            log.warning("reconcile rejected by the API server; retrying", extra=fields)
        else:
            log.error("reconcile failed; retrying", extra=fields, exc_info=error)
        message = tenant_message(name, error, self.controller.reconcile_seconds_max)
        self.controller.events.warning(key.plane, self._object(key), FAILED_REASON, message)

    def _object(self, key: ObjectKey) -> Object:
        """The key's object for an event: from a mirror, or only its identity if no mirror has it."""
        resource = self.controller.resource
        for mirror in self.controller.reads:
            if mirror.selection.resource == resource and (obj := mirror.get(key)) is not None:
                return {**obj, "apiVersion": resource.api_version, "kind": resource.kind}
        metadata = {"tenant": key.tenant, "name": key.name, "namespace": key.namespace}
        return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}

    def _refill(self, tenant_key: TenantKey) -> None:
        """Enqueues all keys of a tenant whose queue overflowed, from the mirrors."""
        for source in self.controller.sources:
            if source.mirror is not None:
                _enqueue_all(source.mirror, tenant_key, self._enqueuer(source))

    def _enqueuer(self, source: WatchSource) -> Subscriber:
        shard = self.controller.context.planes.shard
        if shard is None:
            return _Enqueuer(self.queue, source.keys)
        tenant_of = self.controller.tenant_of
        return _Enqueuer(
            self.queue, lambda change: [key for key in source.keys(change) if tenant_of(key) in shard]
        )


async def subscribe(loops: Iterable[ControllerLoop]) -> None:
    """Enqueues what there is, each object decoded once for all loops, and from then on what changes."""
    subscribers: dict[Mirror, list[Subscriber]] = {}
    for loop in loops:
        for each in loop.subscriptions():
            subscribers.setdefault(each.mirror, []).append(each.subscriber)
    for mirror, together in subscribers.items():
        await mirror.subscribe_in_turns(*together)


def _enqueue_all(mirror: Mirror, tenant_key: TenantKey, enqueue: Subscriber) -> None:
    for key in mirror.keys(tenant_key.plane, tenant_key.tenant):
        if (obj := mirror.get(key)) is not None:
            enqueue(ObjectChange(ChangeType.ADDED, key, obj))


class _Enqueuer:
    """A mirror's subscriber that enqueues the keys of a change."""

    __slots__ = ("_keys", "_queue")

    def __init__(self, queue: WorkQueue, keys: Keys) -> None:
        self._queue = queue
        self._keys = keys

    def __call__(self, change: ObjectChange) -> None:
        for key in self._keys(change):
            self._queue.add(key)

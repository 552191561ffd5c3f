"""All pods of a node, of all planes and tenants: a worker for each, from the moment it is bound here until nothing
of it is left.

What was left running by an agent before is adopted by the pod's worker once the API shows the pod; what no
plane knows any more is removed, as soon as its plane was heard.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence

from alcove.agent.podkey import PodKey
from alcove.agent.pods import container_labels
from alcove.agent.pods.adoption import view_of
from alcove.agent.pods.executor import PodExecutor
from alcove.agent.pods.plan import grace_of_pod
from alcove.agent.pods.status_writer import StatusWriter
from alcove.agent.pods.worker import PodWorker
from alcove.agent.pods.worker_context import WorkerContext
from alcove.agent.runtime.base import ContainerStatus, RuntimeFailure
from alcove.agent.volumes.errors import VolumeFailure
from alcove.api.objects import Object
from alcove.client.changes import ChangeType, ObjectChange
from alcove.client.keys import ObjectKey, PlaneId
from alcove.dataplane.errors import DataPlaneError

log = logging.getLogger(__name__)

AGAIN_SECONDS = 5.0
SHUTDOWN_SECONDS_MAX = 30.0

Found = dict[PodKey, list[ContainerStatus]]
SiteOf = Callable[[PodKey, Sequence[ContainerStatus]], PodExecutor]
"""A site for the pod; what was found of it tells which runtime it is in."""
TellingOf = Callable[[PodKey], StatusWriter]


class PodWorkers:
    """`run` until cancelled; pods keep running then."""

    def __init__(self, site_of: SiteOf, writer_of: TellingOf, around: WorkerContext, left: Found) -> None:
        self._site_of = site_of
        self._telling_of = writer_of
        self._around = around
        self._left = left
        """What runs here and no pod has claimed yet."""
        self._workers: dict[PodKey, PodWorker] = {}
        self._named: dict[ObjectKey, PodKey] = {}
        self._tasks: asyncio.TaskGroup | None = None
        self._early: list[ObjectChange] = []

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            for change in self._early:
                self.offer(change)
            self._early.clear()
            await asyncio.Event().wait()

    async def drain(self) -> None:
        """The node is being turned off: its pods end, each with its grace, and are told so."""
        workers = list(self)
        for worker in workers:
            grace = min(grace_of_pod(worker.pod["spec"]), SHUTDOWN_SECONDS_MAX)
            worker.fail("Terminated", "Pod was terminated in response to imminent node shutdown.", grace)
        try:
            async with asyncio.timeout(SHUTDOWN_SECONDS_MAX + 5.0):
                for worker in workers:
                    await worker.cleaned.wait()
        except TimeoutError:
            log.warning("some pods did not end in time")

    # Reading

    def find(self, key: ObjectKey) -> PodWorker | None:
        """The pod that has this name now."""
        named = self._named.get(key)
        return self._workers.get(named) if named is not None else None

    def __iter__(self) -> Iterator[PodWorker]:
        return iter(list(self._workers.values()))

    def __len__(self) -> int:
        return len(self._workers)

    def keys(self) -> set[PodKey]:
        """Pods of which something may be here."""
        return {*self._workers, *self._left}

    # Being told

    def offer(self, change: ObjectChange) -> None:
        """A pod that is bound to this node, was, or is gone."""
        if self._tasks is None:
            self._early.append(change)
            return
        key = PodKey.of(change.key, change.obj)
        before = self._named.get(change.key)
        if before is not None and before != key and before in self._workers:
            self._workers[before].change(None)
        if change.kind is ChangeType.DELETED:
            if key in self._workers:
                self._workers[key].change(None)
            if before == key:
                del self._named[change.key]
            return
        self._named[change.key] = key
        if key in self._workers:
            self._workers[key].change(change.obj)
        else:
            self._hire(self._tasks, key, change.obj)

    def _hire(self, tasks: asyncio.TaskGroup, key: PodKey, pod: Object) -> None:
        worker = self._workers[key] = self._worker(key, pod, self._left.pop(key, []))
        tasks.create_task(self._keep(worker), name=f"pod {key}")

    def _worker(self, key: PodKey, pod: Object, found: Sequence[ContainerStatus]) -> PodWorker:
        executor = self._site_of(key, found)
        return PodWorker(executor, pod, view_of(pod, found), self._telling_of(key), self._around)

    async def _keep(self, worker: PodWorker) -> None:
        """A worker that fails is replaced, and begins with what runs."""
        key = worker.key
        while True:
            try:
                await worker.run()
                break
            except Exception:
                log.exception("pod's worker failed", extra={"pod": str(key)})
            await asyncio.sleep(AGAIN_SECONDS)
            try:
                found = [each for each in await worker.executor.runtime.list() if _is_of(each, key)]
            except (RuntimeFailure, OSError):
                log.exception("runtime does not list", extra={"pod": str(key)})
                continue
            pod, end = worker.pod, worker.view.end
            worker = self._workers[key] = self._worker(key, pod, found)
            worker.view.end = worker.view.end or end
        del self._workers[key]
        if self._named.get(key.object_key) == key and worker.view.end is not None:
            del self._named[key.object_key]

    # What nobody claims

    @property
    def has_left(self) -> bool:
        return bool(self._left)

    async def sweep(self, heard: Callable[[PlaneId], bool]) -> None:
        """Removes what is left of pods that their planes, being heard, do not have."""
        for key in [each for each in self._left if heard(each.plane)]:
            found = self._left.get(key)
            if found is None:
                continue  # Its pod came back and has claimed it.
            log.info("removing leftovers of a pod", extra={"pod": str(key)})
            executor = self._site_of(key, found)
            try:
                await executor.dismantle()
                await executor.forget()
            except (RuntimeFailure, DataPlaneError, VolumeFailure, OSError) as error:
                extra = {"pod": str(key), "error": str(error)}
                log.warning("failed to remove leftovers of a pod; retrying", extra=extra)
            else:
                self._left.pop(key, None)


def _is_of(status: ContainerStatus, key: PodKey) -> bool:
    mark = container_labels.read(status.labels)
    return mark is not None and mark.key == key

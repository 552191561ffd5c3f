"""All pods of a node, of all planes and tenants: one worker for each, from the moment the pod is bound to the
node until it has been removed.

Containers left running by an earlier agent process are adopted by the pod's worker once the API shows the
pod. Leftovers of pods that no plane has any more are removed as soon as their plane is synced.

A pod whose tenant moves to another plane is added there before it is deleted here (`client/planes.py`): its worker goes on.
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
from alcove.api.objects import Object, get
from alcove.client.changes import ChangeType, ObjectChange
from alcove.client.keys import HOME, ObjectKey
from alcove.component.log_limit import LogLimit
from alcove.component.tasks import stop_if_cancelled
from alcove.dataplane.errors import DataPlaneError

log = logging.getLogger(__name__)

RESTART_SECONDS = 5.0
PLANE_UNFINISHED_PODS_MAX = 2_000
"""Pods of one dedicated plane on a node that have not finished, those that wait included."""
PLANE_PODS_MAX = 16_000
"""The same with finished ones; more than the pod garbage collector leaves."""
SHUTDOWN_SECONDS_MAX = 30.0

Found = dict[PodKey, list[ContainerStatus]]
"""Containers that earlier agent processes left on the node, by pod."""
SiteOf = Callable[[PodKey, Sequence[ContainerStatus]], PodExecutor]
"""Creates the executor of a pod; the pod's existing containers determine its runtime."""
WriterOf = Callable[[PodKey], StatusWriter]


class PodWorkers:
    """`run` returns only when cancelled; pods keep running then."""

    def __init__(
        self, executor_of: SiteOf, writer_of: WriterOf, context: WorkerContext, unclaimed: Found
    ) -> None:
        self._executor_of = executor_of
        self._writer_of = writer_of
        self._context = context
        self._unclaimed = unclaimed
        """Containers on the node that no worker has adopted yet."""
        self._workers: dict[PodKey, PodWorker] = {}
        self._keys_by_name: dict[ObjectKey, PodKey] = {}
        self._tasks: asyncio.TaskGroup | None = None
        self._early: list[ObjectChange] = []
        self._log_limit = LogLimit()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            for change in self._early:
                self.offer(change)
            self._early.clear()
            await asyncio.Event().wait()

    async def drain(self) -> None:
        """Terminates all pods because the node shuts down, each with its grace period."""
        workers = list(self)
        for worker in workers:
            grace = min(grace_of_pod(worker.pod["spec"]), SHUTDOWN_SECONDS_MAX)
            worker.fail("Terminated", "Pod was terminated in response to imminent node shutdown.", grace)
        try:
            async with asyncio.timeout(SHUTDOWN_SECONDS_MAX + 5.0):
                for worker in workers:
                    await worker.cleaned.wait()
        except TimeoutError:
            log.warning("pods did not terminate before node shutdown")

    # Reading

    def find(self, key: ObjectKey) -> PodWorker | None:
        """The worker of the current pod of that name."""
        pod_key = self._keys_by_name.get(key)
        return self._workers.get(pod_key) if pod_key is not None else None

    def __iter__(self) -> Iterator[PodWorker]:
        return iter(list(self._workers.values()))

    def __len__(self) -> int:
        return len(self._workers)

    def keys(self) -> set[PodKey]:
        """Pods that may have something on this node."""
        return {*self._workers, *self._unclaimed}

    # Changes

    def offer(self, change: ObjectChange) -> None:
        """Handles a change of a pod that is or was bound to this node."""
        if self._tasks is None:
            self._early.append(change)
            return
        key = self._known_key(PodKey.of(change.key, change.obj))
        before = self._keys_by_name.get(change.key)
        if change.kind is ChangeType.DELETED and self._is_elsewhere(change.key, key):
            self._keys_by_name.pop(change.key, None)
            return
        if before is not None and before != key and before in self._workers:
            self._workers[before].change(None)
        if change.kind is ChangeType.DELETED:
            if key in self._workers:
                self._workers[key].change(None)
            if before == key:
                del self._keys_by_name[change.key]
            return
        if key in self._workers:
            self._keys_by_name[change.key] = key
            self._workers[key].change(change.obj)
        elif self._has_room(key, change.obj):
            self._keys_by_name[change.key] = key
            self._start_worker(self._tasks, key, change.obj)

    def _known_key(self, key: PodKey) -> PodKey:
        """The key under which this node has the pod: it may have come here before its tenant moved."""
        other = key.on_other_plane()
        is_known = key in self._workers or key in self._unclaimed
        return other if not is_known and (other in self._workers or other in self._unclaimed) else key

    def _is_elsewhere(self, name: ObjectKey, key: PodKey) -> bool:
        """Whether another plane has the pod, too: its tenant has moved there."""
        other = PodKey(name.plane, key.tenant, key.namespace, key.name, key.uid).on_other_plane().object_key
        return other != name and self._keys_by_name.get(other) == key

    def _has_room(self, key: PodKey, pod: Object) -> bool:
        """A dedicated plane's API server may say of any number of pods that they are bound here."""
        if key.plane == HOME or key in self._unclaimed:
            return True
        others = [worker for other, worker in self._workers.items() if other.plane == key.plane]
        unfinished = sum(not _is_finished(worker.pod) for worker in others)
        if len(others) < PLANE_PODS_MAX and (_is_finished(pod) or unfinished < PLANE_UNFINISHED_PODS_MAX):
            return True
        if self._log_limit.allows(key.plane):
            log.warning("too many pods of a dedicated plane; ignoring others", extra={"plane": key.plane})
        return False

    def _start_worker(self, tasks: asyncio.TaskGroup, key: PodKey, pod: Object) -> None:
        worker = self._workers[key] = self._worker(key, pod, self._unclaimed.pop(key, []))
        tasks.create_task(self._supervise(worker), name=f"pod {key}")

    def _worker(self, key: PodKey, pod: Object, found: Sequence[ContainerStatus]) -> PodWorker:
        executor = self._executor_of(key, found)
        return PodWorker(executor, pod, view_of(pod, found), self._writer_of(key), self._context)

    async def _supervise(self, worker: PodWorker) -> None:
        """Runs the worker. One that fails is replaced by a new one, which adopts the pod's containers."""
        key = worker.key
        while True:
            try:
                await worker.run()
                break
            except Exception:
                log.exception("pod worker failed; restarting", extra={"pod": str(key)})
            stop_if_cancelled()
            await asyncio.sleep(RESTART_SECONDS)
            try:
                found = [each for each in await worker.executor.runtime.list() if _is_of(each, key)]
            except (RuntimeFailure, OSError):
                log.exception("failed to list containers", extra={"pod": str(key)})
                continue
            pod, end = worker.pod, worker.view.end
            worker = self._workers[key] = self._worker(key, pod, found)
            worker.view.end = worker.view.end or end
        del self._workers[key]
        if worker.view.end is not None:
            for name in (key.object_key, key.on_other_plane().object_key):
                if self._keys_by_name.get(name) == key:
                    del self._keys_by_name[name]

    # Leftovers

    @property
    def has_left(self) -> bool:
        """Whether there are containers that no worker has adopted yet."""
        return bool(self._unclaimed)

    async def sweep(self, is_synced: Callable[[PodKey], bool]) -> None:
        """Removes leftovers of pods that no plane has; those of planes that are not synced are skipped."""
        for key in [each for each in self._unclaimed if is_synced(each)]:
            found = self._unclaimed.get(key)
            if found is None:
                continue  # The pod appeared meanwhile, and its worker has adopted the containers.
            log.info("removing leftovers of a pod", extra={"pod": str(key)})
            executor = self._executor_of(key, found)
            try:
                await executor.tear_down()
                await executor.remove_logs()
            except (RuntimeFailure, DataPlaneError, VolumeFailure, OSError) as error:
                extra = {"pod": str(key), "error": str(error)}
                log.warning("failed to remove leftovers of a pod; retrying", extra=extra)
            else:
                self._unclaimed.pop(key, None)


def _is_finished(pod: Object) -> bool:
    return get(pod, "status", "phase") in ("Succeeded", "Failed")


def _is_of(status: ContainerStatus, key: PodKey) -> bool:
    mark = container_labels.read(status.labels)
    return mark is not None and mark.key == key

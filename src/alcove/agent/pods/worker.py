"""One pod's worker: computes the plan, carries out its steps, and reports the pod's status.

The pod can change while a step runs; it may be deleted while its image is pulled. Each step is therefore a
task of its own: when the plan changes, a step that it no longer contains is cancelled.
"""

from __future__ import annotations

import asyncio
import logging
from typing import assert_never

from alcove.agent.pods import backoff, container_labels, resizing
from alcove.agent.pods.container_starter import ContainerStarter
from alcove.agent.pods.container_watcher import ContainerWatcher
from alcove.agent.pods.containers import DesiredContainer, desired_containers
from alcove.agent.pods.executor import PodExecutor, PodRejected, PodSetupError
from alcove.agent.pods.plan import (
    MakeSandbox,
    PodPlan,
    RemoveContainer,
    RemoveSandbox,
    ResizeContainers,
    RestartAllContainers,
    SetUpPod,
    StartContainer,
    StartCreatedContainer,
    Step,
    TearDownPod,
    finished,
    grace_of_pod,
    plan,
    reset_containers,
    restarts_all,
)
from alcove.agent.pods.status import is_ended
from alcove.agent.pods.status_reporter import StatusReporter
from alcove.agent.pods.status_writer import StatusWriter
from alcove.agent.pods.view import (
    PodRuntimeView,
    PodTermination,
    TerminationCause,
)
from alcove.agent.pods.worker_context import NORMAL, WARNING, WorkerContext
from alcove.agent.runtime.base import (
    RuntimeFailure,
)
from alcove.agent.volumes import downward
from alcove.agent.volumes.downward import DownwardMetadata
from alcove.api import meta, objects
from alcove.api.objects import Object
from alcove.component import request_ids

log = logging.getLogger(__name__)

READINESS = "arktos.futurewei.com/network-readiness"
"""Annotation on the pod: "true" once its network is ready."""
STATUS_SECONDS = 1.0
"""While a step runs, the status is updated this often."""


class PodWorker:
    def __init__(
        self,
        executor: PodExecutor,
        pod: Object,
        view: PodRuntimeView,
        writer: StatusWriter,
        context: WorkerContext,
    ) -> None:
        self.key = executor.key
        self.executor = executor
        self.pod = pod
        self.view = view
        self._writer = writer
        self._context = context
        self._woken = asyncio.Event()
        self.volume_metadata = None if view.sandbox is None else DownwardMetadata()
        """The metadata that the pod's volumes show: as it was when they were mounted, or last refreshed. Empty for those
        that an earlier agent mounted, which are refreshed for that. None until they are mounted."""
        self.cleaned = asyncio.Event()
        """Set when everything of the pod has been removed from the node."""
        self._tasks = asyncio.TaskGroup()
        self._watcher = ContainerWatcher(executor, view, context, self._tasks, lambda: self.pod, self.wake)
        self._starter = ContainerStarter(executor, view, context, self._watcher, lambda: self._allocated_pod)
        self._reporter = StatusReporter(writer, context.addresses, context.wall, is_final=is_ended(pod))
        if self._reporter.is_final:
            self.view.end = PodTermination(TerminationCause.FINISHED, grace_of_pod(pod["spec"]))
        self._began = self._start_of(pod)
        self.change(pod)

    # Input

    def change(self, pod: Object | None) -> None:
        """Sets the pod as the API server has it now; None if the API server no longer has it."""
        if pod is None:
            self._context.admission.release(self.key)
            self._writer.set_deleted()
            self._terminate(PodTermination(TerminationCause.DELETED, grace_of_pod(self.pod["spec"])))
            return
        if objects.annotations(self.pod).get(READINESS) != objects.annotations(pod).get(READINESS):
            self.view.retry_at = 0.0  # The network may be ready now.
        self.pod = pod
        self._reporter.observe(pod)
        if "deletionTimestamp" in pod["metadata"]:
            grace = pod["metadata"].get("deletionGracePeriodSeconds")
            self._terminate(
                PodTermination(
                    TerminationCause.DELETED, float(grace) if grace is not None else grace_of_pod(pod["spec"])
                )
            )
        self.wake()

    def fail(self, reason: str, message: str, grace_seconds: float) -> None:
        """Terminates the pod as Failed, unless it is terminating already."""
        if self.view.end is None:
            self._terminate(PodTermination(TerminationCause.FAILED, grace_seconds, reason, message))

    def wake(self) -> None:
        self._woken.set()

    def _terminate(self, end: PodTermination) -> None:
        self.view.end = end
        if end.cause is not TerminationCause.DELETED:
            self._context.admission.release(self.key)
        self.wake()

    # The loop

    async def run(self) -> None:
        """Returns when the pod has been removed from the node and from the API."""
        async with self._tasks:
            try:
                if self.view.sandbox is not None and self.view.end is None:
                    allocated = resizing.reported_resources(self.pod)
                    self._context.admission.adopt(self.key, resizing.with_resources(self.pod, allocated))
                self._watcher.adopt()
                await self._work()
            finally:
                self._watcher.leave()
                self._writer.stop()

    async def _work(self) -> None:
        while True:
            self._woken.clear()
            planned = self._plan()
            if planned.step is None or not self._reporter.has_reported:
                # The status is not written after every step: most steps take a moment only.
                self._update_status()
            if planned.step is not None:
                await self._run_step(planned.step)
            elif planned.is_over:
                self._context.admission.release(self.key)
                await self._writer.delete()
                await self.executor.remove_logs()
                return
            else:
                await self._sleep(planned.wake_at)

    def _plan(self) -> PodPlan:
        self._check_deadline()
        if self.view.end is None:
            end = finished(self.pod["spec"], desired_containers(self.pod["spec"]), self.view)
            if end is not None:
                self._terminate(end)
        planned = plan(self.pod["spec"], self.view, self._context.clock())
        for stop in planned.stops:
            self._watcher.stop(stop)
        return planned

    async def _sleep(self, until: float | None) -> None:
        deadline = self._deadline()
        times = [each for each in (until, deadline) if each is not None]
        try:
            async with asyncio.timeout(max(0.0, min(times) - self._context.clock()) if times else None):
                await self._woken.wait()
        except TimeoutError:
            return

    async def _run_step(self, step: Step) -> None:
        task = self._tasks.create_task(self._try_step(step), name=f"{type(step).__name__} {self.key}")
        while not task.done():
            woken = asyncio.create_task(self._woken.wait())
            await asyncio.wait((task, woken), timeout=STATUS_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            woken.cancel()
            if not task.done():
                self._update_status()
                self._woken.clear()
                if self._is_obsolete(step, self._plan()):
                    task.cancel()
                    await asyncio.wait((task,))

    def _is_obsolete(self, step: Step, planned: PodPlan) -> bool:
        if planned.step == step:
            return False
        if not isinstance(step, StartContainer | StartCreatedContainer) or self.view.end is not None:
            return True
        if restarts_all(desired_containers(self.pod["spec"]), self.view):
            return False  # It is stopped with the others once it is started.
        # Starting includes the postStart hook, so the step goes on while the container is running.
        return not self.view.observed(step.container).is_running

    async def _try_step(self, step: Step) -> None:
        """Runs the step; failures are recorded in the view, and the plan retries later."""
        began = self._context.clock()
        # The step is a task, so only its log lines and requests carry this id.
        request_ids.current.set(request_ids.new())
        try:
            await self._do(step)
        except PodRejected as error:
            self._note(WARNING, error.reason, str(error))
            self._terminate(PodTermination(TerminationCause.FAILED, 0.0, error.reason, str(error)))
        except (PodSetupError, RuntimeFailure, OSError) as error:
            self._step_failed(step, error)
            if not isinstance(step, SetUpPod | MakeSandbox):
                await asyncio.sleep(backoff.try_seconds(self.view.failures))
        else:
            seconds = round(self._context.clock() - began, 4)
            log.debug(
                "pod step done", extra={"pod": str(self.key), "step": type(step).__name__, "seconds": seconds}
            )
            if not isinstance(step, SetUpPod):
                self.view.failures = 0

    def _step_failed(self, step: Step, error: Exception) -> None:
        view = self.view
        is_teardown = isinstance(step, RemoveContainer | RemoveSandbox | TearDownPod)
        view.failures += 1
        view.retry_at = self._context.clock() + backoff.try_seconds(view.failures)
        default = "FailedKillPod" if is_teardown else "FailedCreatePodSandBox"
        event = error.event if isinstance(error, PodSetupError) else default
        log.info("pod sync failed; retrying", extra={"pod": str(self.key), "error": str(error)})
        if event and view.failures > 1:
            # No event for the first failure: usually the pod's network is ready a moment later.
            self._note(WARNING, event, str(error))

    async def _do(self, step: Step) -> None:
        match step:
            case SetUpPod():
                if self.volume_metadata is None:  # Volumes that are mounted keep their contents.
                    self.volume_metadata = downward.metadata(self.pod)
                if self.view.resize.allocated is None:
                    self.view.resize.allocated = resizing.reported_resources(self.pod)
                await self._context.admission.admit(self.key, self._allocated_pod)
                await self.executor.set_up(self._allocated_pod)
                self.view.is_set_up = True
            case MakeSandbox(attempt=attempt):
                await self._make_sandbox(attempt)
            case StartContainer(container=name, attempt=attempt):
                await self._starter.start(self._desired(name), attempt)
            case StartCreatedContainer(container=name, id=id):
                await self._starter.resume(self._desired(name), id)
            case RemoveContainer(container=name, id=id):
                await self.executor.discard(id, with_log=True)
                observed = self.view.observed(name)
                observed.stale = [each for each in observed.stale if each != id]
            case ResizeContainers():
                await self._resize()
            case RestartAllContainers():
                reset_containers(self.pod["spec"], self.view)
            case RemoveSandbox():
                await self._remove_sandbox()
            case TearDownPod():
                await self._tear_down()
            case _:
                assert_never(step)

    # Steps

    async def _make_sandbox(self, attempt: int) -> None:
        """Updates the view at the end only: this step is cancelled if the plan changes before that."""
        existing = self.view.sandbox
        id = existing.id if existing is not None else container_labels.sandbox_id(self.key, attempt)
        async with self._context.starts.slot(self.key.tenant_key):
            try:
                if existing is None:
                    await self.executor.make_sandbox(self._allocated_pod, attempt)
                await self.executor.runtime.start(id)
                running = await self.executor.runtime.status(id)
            except BaseException:
                # Two sandboxes of one pod would share its network: remove this one before the next attempt.
                await asyncio.shield(self.executor.discard(id))
                self.view.sandbox, self.view.next_sandbox = None, attempt + 1
                raise
        self.view.sandbox, self.view.next_sandbox = running, attempt + 1
        self._watcher.watch("", id)

    async def _resize(self) -> None:
        context = self._context
        failure = await resizing.resize(
            self.key, self.pod, self.view, context.admission, self.executor, context.clock()
        )
        if failure is not None:
            self._note(WARNING, *failure)

    @property
    def _allocated_pod(self) -> Object:
        """The pod with the resources that its containers were allocated."""
        return resizing.with_resources(self.pod, self.view.resize.allocated)

    async def _remove_sandbox(self) -> None:
        sandbox = self.view.sandbox
        assert sandbox is not None
        self._note(NORMAL, "SandboxChanged", "Pod sandbox changed, it will be killed and re-created.")
        await self.executor.drop_sandbox(sandbox.id)
        for observed in self.view.containers.values():
            observed.stale = ()
        self.view.sandbox, self.view.is_set_up = None, False

    async def _tear_down(self) -> None:
        # The last status is written first: after the teardown, exit codes can no longer be read.
        self._update_status()
        await self._reporter.finish()
        await self.executor.tear_down()
        self.view.sandbox, self.view.is_set_up, self.view.is_clean = None, False, True
        self.cleaned.set()

    # Reporting

    def _update_status(self) -> None:
        self._reporter.update(self.pod, self.view, self.executor)

    def _note(self, type_: str, reason: str, message: str) -> None:
        self._context.note(self.key, type_, reason, message)

    # Time

    def _start_of(self, pod: Object) -> float:
        """The pod's start time, by the monotonic clock."""
        start_time = (pod.get("status") or {}).get("startTime")
        ago = max(0.0, self._context.wall() - meta.parse_time(start_time)) if start_time else 0.0
        return self._context.clock() - ago

    def _deadline(self) -> float | None:
        seconds = self.pod["spec"].get("activeDeadlineSeconds")
        return None if seconds is None or self.view.end is not None else self._began + float(seconds)

    def _check_deadline(self) -> None:
        deadline = self._deadline()
        if deadline is not None and self._context.clock() >= deadline:
            message = "Pod was active on the node longer than the specified deadline"
            self.fail("DeadlineExceeded", message, grace_of_pod(self.pod["spec"]))

    def _desired(self, name: str) -> DesiredContainer:
        return next(each for each in desired_containers(self._allocated_pod["spec"]) if each.name == name)

"""Running containers of one pod: watches them until they exit, probes them, and stops them when planned."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from msgspec import structs

from alcove.agent.pods import backoff, container_labels
from alcove.agent.pods.container_stop import ContainerStop, signal_of
from alcove.agent.pods.containers import DesiredContainer, desired_containers
from alcove.agent.pods.executor import PodExecutor
from alcove.agent.pods.plan import StopContainer
from alcove.agent.pods.view import ContainerRun, ObservedContainer, PodRuntimeView, WaitingState
from alcove.agent.pods.worker_context import NORMAL, WARNING, WorkerContext
from alcove.agent.probes.prober import ProbeCallbacks, Prober
from alcove.agent.runtime.base import ContainerId, ContainerPhase, ContainerStatus, Isolation, RuntimeFailure
from alcove.api.objects import Object

_LOST_EXIT_CODE = 137
RecordProbeEvent = Callable[[str, str, str], None]
"""(type, reason, message) of an event."""


def is_hollow(executor: PodExecutor) -> bool:
    """Whether the pod's containers have no processes, and so cannot be probed or run hooks."""
    return executor.runtime.isolation is Isolation.NONE


class ContainerWatcher:
    """Writes changes of one pod's containers into its view, and wakes its worker."""

    def __init__(
        self,
        executor: PodExecutor,
        view: PodRuntimeView,
        context: WorkerContext,
        tasks: asyncio.TaskGroup,
        pod: Callable[[], Object],
        wake: Callable[[], None],
    ) -> None:
        self._executor = executor
        self._view = view
        self._context = context
        self._tasks = tasks
        self._pod = pod
        self._wake = wake
        self._watched: dict[ContainerId, asyncio.Task[None]] = {}
        self._stopping: dict[str, tuple[ContainerStop, asyncio.Task[None]]] = {}
        self._probing: dict[str, asyncio.Task[None]] = {}

    def leave(self) -> None:
        """Stops watching, probing and stopping; the containers keep running."""
        for task in (*self._watched.values(), *self._probing.values()):
            task.cancel()
        for _, task in self._stopping.values():
            task.cancel()

    def adopt(self) -> None:
        """Watches and probes the containers that were running before this worker started."""
        view = self._view
        if view.sandbox is not None and view.sandbox.phase is ContainerPhase.RUNNING:
            self.watch("", view.sandbox.id)
        for each in desired_containers(self._pod()["spec"]):
            observed = view.observed(each.name)
            if observed.current is not None and observed.is_running:
                self.watch(each.name, observed.current.status.id)
                self.probe(each)
            elif observed.is_over:
                self.exited(each, observed)
            if observed.previous is not None:
                observed.previous = self._with_termination_message(each, observed.previous)

    def watch(self, name: str, id: ContainerId) -> None:
        self._watched[id] = self._tasks.create_task(self._await_exit(name, id), name=f"end of {id}")

    async def _await_exit(self, name: str, id: ContainerId) -> None:
        try:
            status = await self._executor.runtime.wait(id)
        except RuntimeFailure:
            status = self._lost_status(name, id)
        del self._watched[id]
        if not name:
            if self._view.sandbox is not None and self._view.sandbox.id == id:
                self._view.sandbox = status
        else:
            container, observed = self._desired(name), self._view.observed(name)
            if observed.current is not None and observed.current.status.id == id:
                observed.current = structs.replace(observed.current, status=status)
                self.exited(container, observed)
        self._wake()

    def _lost_status(self, name: str, id: ContainerId) -> ContainerStatus:
        """The status of a container that the runtime no longer has: exited, with an unknown exit code."""
        current = self._view.observed(name).current if name else None
        last_status = current.status if current is not None else self._view.sandbox
        sandbox = last_status.sandbox if last_status is not None else id
        started = last_status.started_at if last_status is not None else 0.0
        return ContainerStatus(
            id, sandbox, ContainerPhase.EXITED, {}, 0.0, started, self._context.wall(), _LOST_EXIT_CODE
        )

    def _with_termination_message(self, container: DesiredContainer, ended: ContainerRun) -> ContainerRun:
        mark = container_labels.read(ended.status.labels)
        if mark is None:
            return ended
        return structs.replace(
            ended, message=self._executor.termination_message(container, mark, ended.status)
        )

    def exited(self, container: DesiredContainer, observed: ObservedContainer) -> None:
        """Records that the container's current run has exited, with its termination message."""
        assert observed.current is not None
        observed.current = self._with_termination_message(container, observed.current)
        self.ended(container, observed)

    def ended(
        self, container: DesiredContainer, observed: ObservedContainer, waiting: WaitingState | None = None
    ) -> None:
        """Records that the container's current run has exited, and its back-off if it restarts."""
        assert observed.current is not None
        self._stop_tasks(container.name)
        observed.forget_probes()
        backoff_message = backoff.after_exit(container, observed, self._pod()["spec"], self._context.clock())
        observed.waiting = waiting
        if backoff_message is not None and self._view.end is None:
            observed.waiting = WaitingState("CrashLoopBackOff", f"{backoff_message} pod={self._pod_name}")
            message = f"Back-off restarting failed container {container.name} in pod {self._pod_name}"
            self._note(WARNING, "BackOff", message)

    @property
    def _pod_name(self) -> str:
        return f"{self._executor.key.name}_{self._executor.key.namespace}({self._executor.key.uid})"

    def _stop_tasks(self, name: str) -> None:
        """Cancels the container's probes and its stop, if any."""
        if (probing := self._probing.pop(name, None)) is not None:
            probing.cancel()
        if (stopping := self._stopping.pop(name, None)) is not None:
            stopping[1].cancel()

    def stop(self, stop: StopContainer) -> None:
        name = stop.container
        if name in self._stopping:
            self._stopping[name][0].shorten(stop.grace_seconds)
            return
        container, observed = self._desired(name), self._view.observed(name)
        assert observed.current is not None
        id = observed.current.status.id
        self._note(NORMAL, "Killing", stop.message)

        def hook_failed(message: str) -> None:
            self._note(WARNING, "FailedPreStopHook", f"PreStopHook failed: {message}")

        signal = signal_of(container.spec, container_labels.read(observed.current.status.labels))
        stopping = ContainerStop(
            self._executor, container.spec, id, signal, stop.grace_seconds, self._context.clock, hook_failed
        )
        task = self._tasks.create_task(stopping.run(), name=f"stop {id}")
        self._stopping[name] = (stopping, task)

    def probe(self, container: DesiredContainer) -> None:
        observed = self._view.observed(container.name)
        if observed.current is None or not observed.is_running:
            return
        if is_hollow(self._executor) or not has_probes(container.spec):
            observed.is_started = observed.is_ready = True
            self._wake()
            return
        id = observed.current.status.id
        prober = Prober(
            self._executor,
            container.spec,
            id,
            probe_callbacks(container.name, observed, self._wake, self._note),
            self._context.probe_slots,
        )
        task = self._tasks.create_task(prober.run(observed.is_started), name=f"probes of {id}")
        self._probing[container.name] = task

    def _note(self, type_: str, reason: str, message: str) -> None:
        self._context.note(self._executor.key, type_, reason, message)

    def _desired(self, name: str) -> DesiredContainer:
        return next(each for each in desired_containers(self._pod()["spec"]) if each.name == name)


def has_probes(container: Object) -> bool:
    return any(container.get(f"{kind}Probe") for kind in ("startup", "liveness", "readiness"))


def probe_callbacks(
    name: str, observed: ObservedContainer, wake: Callable[[], None], note: RecordProbeEvent
) -> ProbeCallbacks:
    """Callbacks that update `observed` and call `wake` when that changes the plan."""

    def started() -> None:
        observed.is_started = True
        wake()

    def ready_changed(is_ready: bool) -> None:
        if observed.is_ready is not is_ready:
            observed.is_ready = is_ready
            wake()

    def restart_needed(kind: str) -> None:
        observed.kill_message, observed.failed_probe = f"Container {name} failed {kind} probe", kind
        wake()

    def unhealthy(kind: str, message: str) -> None:
        note("Warning", "Unhealthy", f"{kind.capitalize()} probe failed: {message}")

    return ProbeCallbacks(started, ready_changed, restart_needed, unhealthy)

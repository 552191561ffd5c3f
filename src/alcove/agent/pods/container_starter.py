"""Starts a pod's containers, and records in the view how that went."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from alcove.agent.pods import backoff, container_labels, lifecycle_hooks
from alcove.agent.pods.container_labels import ContainerMark
from alcove.agent.pods.container_watcher import ContainerWatcher, is_hollow
from alcove.agent.pods.containers import DesiredContainer
from alcove.agent.pods.executor import ContainerStartError, PodExecutor
from alcove.agent.pods.view import ContainerRun, ObservedContainer, PodRuntimeView, WaitingState
from alcove.agent.pods.worker_context import NORMAL, WARNING, WorkerContext
from alcove.agent.runtime.base import (
    ContainerId,
    ContainerPhase,
    ContainerStatus,
    CreateFailed,
    RuntimeFailure,
)
from alcove.api.objects import Object


class ContainerStarter:
    def __init__(
        self,
        executor: PodExecutor,
        view: PodRuntimeView,
        context: WorkerContext,
        watcher: ContainerWatcher,
        pod: Callable[[], Object],
    ) -> None:
        """`pod` returns the pod as it is now, with the resources that its containers were allocated."""
        self._key = executor.key
        self._executor = executor
        self._view = view
        self._context = context
        self._watcher = watcher
        self._pod = pod

    async def start(self, container: DesiredContainer, attempt: int) -> None:
        """Creates and starts the container. Failures are recorded in the view, and the plan retries later."""
        sandbox, observed = self._view.sandbox, self._view.observed(container.name)
        assert sandbox is not None
        mark: ContainerMark | None = None
        try:
            await self._executor.fetch(self._pod(), container, attempt)
            async with self._context.starts.slot(self._key.tenant_key):
                mark = await self._executor.make_container(self._pod(), container, attempt, sandbox)
                self._note(NORMAL, "Created", f"Created container: {container.name}")
                await self._executor.runtime.start(
                    container_labels.container_id(self._key, container.name, attempt)
                )
        except ContainerStartError as error:
            self._container_failed(observed, error)
        except CreateFailed as error:
            await self._could_not_run(container, attempt, mark, str(error))
        except (RuntimeFailure, OSError) as error:
            # A failure of the node, not of the container: most likely a full disk.
            id = container_labels.container_id(self._key, container.name, attempt)
            await self._executor.discard(id, with_log=True)
            self._container_failed(
                observed, ContainerStartError("Failed", f"Error: {error}", "CreateContainerError")
            )
        except BaseException:
            if mark is not None:
                # Cancelled: the container goes into the view, to be stopped and removed like any other.
                await asyncio.shield(self._began_running(container, mark))
            raise
        else:
            await self._began_running(container, mark)
            self._note(NORMAL, "Started", f"Started container {container.name}")
            await self._after_start(container)

    async def resume(self, container: DesiredContainer, id: ContainerId) -> None:
        """Starts a container that was created before, as by an agent that was stopped then."""
        current = self._view.observed(container.name).current
        mark = container_labels.read(current.status.labels) if current is not None else None
        assert mark is not None
        try:
            await self._executor.runtime.start(id)
        except (RuntimeFailure, OSError) as error:
            await self._could_not_run(container, mark.attempt, mark, str(error))
            return
        await self._began_running(container, mark)
        await self._after_start(container)

    async def _began_running(self, container: DesiredContainer, mark: ContainerMark) -> None:
        id = container_labels.container_id(self._key, container.name, mark.attempt)
        observed = self._view.observed(container.name)
        status = await self._executor.runtime.status(id)
        observed.begin(ContainerRun(mark.attempt, status, mark.image, mark.image_id, user=mark.user))
        observed.waiting, observed.failures = None, 0
        observed.forget_probes()
        if observed.is_over:  # Already: its message and its back-off belong to it from the first.
            self._watcher.exited(container, observed)
        else:
            self._watcher.watch(container.name, id)

    async def _after_start(self, container: DesiredContainer) -> None:
        hook = (container.spec.get("lifecycle") or {}).get("postStart")
        observed = self._view.observed(container.name)
        if hook and observed.current is not None and observed.is_running and not is_hollow(self._executor):
            try:
                await lifecycle_hooks.run(hook, container.spec, self._executor, observed.current.status.id)
            except lifecycle_hooks.HookFailed as error:
                self._note(WARNING, "FailedPostStartHook", f"PostStartHook failed: {error}")
                observed.kill_message = f"FailedPostStartHook: container {container.name}"
                return
        self._watcher.probe(container)

    def _container_failed(self, observed: ObservedContainer, error: ContainerStartError) -> None:
        observed.failures += 1
        waits = error.retry_seconds
        if waits is None:
            waits = backoff.try_seconds(observed.failures)
        elif error.reason == "ErrImagePull":
            waits = min(waits, backoff.FAILURE_SHOWN_SECONDS)  # Then the reason becomes ImagePullBackOff.
        observed.retry_at = self._context.clock() + waits
        observed.waiting = WaitingState(error.reason, str(error))
        if error.event:
            self._note(WARNING, error.event, str(error))

    async def _could_not_run(
        self, container: DesiredContainer, attempt: int, mark: ContainerMark | None, message: str
    ) -> None:
        """Records a run that failed to start (command not found, refused by the runtime) as one that has
        exited."""
        id = container_labels.container_id(self._key, container.name, attempt)
        await self._executor.discard(id, with_log=True)
        sandbox, now = self._view.sandbox, self._context.wall()
        code = 127 if "not found" in message or "no such file" in message.lower() else 128
        ended = ContainerStatus(
            id, sandbox.id if sandbox else id, ContainerPhase.EXITED, {}, 0.0, 0.0, now, code
        )
        observed = self._view.observed(container.name)
        image = (mark.image, mark.image_id) if mark else (str(container.spec.get("image", "")), "")
        observed.begin(ContainerRun(attempt, ended, *image, "ContainerCannotRun", message))
        self._note(WARNING, "Failed", f"Error: {message}")
        self._watcher.ended(container, observed, WaitingState("RunContainerError", message))

    def _note(self, type_: str, reason: str, message: str) -> None:
        self._context.note(self._key, type_, reason, message)

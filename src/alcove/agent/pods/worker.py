"""One pod's worker: asks the plan what to do, does it, and tells how the pod is.

What it does, another can undo at any moment: the pod may be deleted while its image is fetched. So steps run
beside it; when the plan changes, a step that is no longer wanted is cancelled.
"""

from __future__ import annotations

import asyncio
import logging
from typing import assert_never

from alcove.agent.pods import backoff, hooks, marks
from alcove.agent.pods.containers import Wanted, wanted
from alcove.agent.pods.lives import Lives, is_hollow
from alcove.agent.pods.marks import Mark
from alcove.agent.pods.plan import (
    Discard,
    Dismantle,
    DropSandbox,
    MakeSandbox,
    Plan,
    Resize,
    Resume,
    SetUp,
    Start,
    Step,
    finished,
    grace_of_pod,
    plan,
    resources_of,
)
from alcove.agent.pods.report import Report
from alcove.agent.pods.site import ContainerTrouble, PodRefused, PodTrouble, Site
from alcove.agent.pods.status import is_ended
from alcove.agent.pods.surroundings import NORMAL, WARNING, Surroundings
from alcove.agent.pods.telling import Telling
from alcove.agent.pods.view import Attempt, End, Seen, View, Waiting, Why
from alcove.agent.runtime.base import ContainerId, CreateFailed, Phase, RuntimeFailure, Status
from alcove.api import meta, objects
from alcove.api.objects import Object
from alcove.component import request_ids

log = logging.getLogger(__name__)

READINESS = "arktos.futurewei.com/network-readiness"
"""Of the pod's network: an annotation."""
TELL_SECONDS = 1.0
"""A step that takes longer does not keep back what is known."""


class Worker:
    def __init__(self, site: Site, pod: Object, view: View, telling: Telling, around: Surroundings) -> None:
        self.key = site.key
        self.site = site
        self.pod = pod
        self.view = view
        self._telling = telling
        self._around = around
        self._woken = asyncio.Event()
        self.cleaned = asyncio.Event()
        """Nothing of the pod is left on the node."""
        self._tasks = asyncio.TaskGroup()
        self._lives = Lives(site, view, around, self._tasks, lambda: self.pod, self.wake)
        self._report = Report(telling, around.addresses, around.wall, is_final=is_ended(pod))
        if self._report.is_final:
            self.view.end = End(Why.FINISHED, grace_of_pod(pod["spec"]))
        self._began = self._start_of(pod)
        self.change(pod)

    # What the node tells it

    def change(self, pod: Object | None) -> None:
        """The pod as the API has it now; None: the API has it no more."""
        if pod is None:
            self._around.admission.release(self.key)
            self._telling.set_gone()
            self._end(End(Why.DELETED, grace_of_pod(self.pod["spec"])))
            return
        if objects.annotations(self.pod).get(READINESS) != objects.annotations(pod).get(READINESS):
            self.view.retry_at = 0.0  # What was missing may be there now.
        self.pod = pod
        self._report.listen(pod)
        if "deletionTimestamp" in pod["metadata"]:
            grace = pod["metadata"].get("deletionGracePeriodSeconds")
            self._end(End(Why.DELETED, float(grace) if grace is not None else grace_of_pod(pod["spec"])))
        self.wake()

    def fail(self, reason: str, message: str, grace_seconds: float) -> None:
        """The node ends the pod, unless it is ending already."""
        if self.view.end is None:
            self._end(End(Why.FAILED, grace_seconds, reason, message))

    def wake(self) -> None:
        self._woken.set()

    def _end(self, end: End) -> None:
        self.view.end = end
        if end.why is not Why.DELETED:
            self._around.admission.release(self.key)
        self.wake()

    # The loop

    async def run(self) -> None:
        """Returns when nothing of the pod is left, here and in the API."""
        async with self._tasks:
            try:
                if self.view.sandbox is not None and self.view.end is None:
                    self._around.admission.adopt(self.key, self.pod)
                self._lives.adopt()
                await self._work()
            finally:
                self._lives.leave()
                self._telling.stop()

    async def _work(self) -> None:
        while True:
            self._woken.clear()
            planned = self._plan()
            if planned.step is None or not self._report.has_told:
                # What changes from step to step, in a moment, is not worth a write each.
                self._tell()
            if planned.step is not None:
                await self._carry_out(planned.step)
            elif planned.is_over:
                self._around.admission.release(self.key)
                await self._telling.delete()
                await self.site.forget()
                return
            else:
                await self._sleep(planned.wake_at)

    def _plan(self) -> Plan:
        self._check_deadline()
        if self.view.end is None:
            end = finished(self.pod["spec"], wanted(self.pod["spec"]), self.view)
            if end is not None:
                self._end(end)
        planned = plan(self.pod["spec"], self.view, self._around.clock())
        for stop in planned.stops:
            self._lives.stop(stop)
        return planned

    async def _sleep(self, until: float | None) -> None:
        deadline = self._deadline()
        times = [each for each in (until, deadline) if each is not None]
        try:
            async with asyncio.timeout(max(0.0, min(times) - self._around.clock()) if times else None):
                await self._woken.wait()
        except TimeoutError:
            return

    async def _carry_out(self, step: Step) -> None:
        task = self._tasks.create_task(self._guarded(step), name=f"{type(step).__name__} {self.key}")
        while not task.done():
            woken = asyncio.create_task(self._woken.wait())
            await asyncio.wait((task, woken), timeout=TELL_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            woken.cancel()
            if not task.done():
                self._tell()
                self._woken.clear()
                if self._is_unwanted(step, self._plan()):
                    task.cancel()
                    await asyncio.wait((task,))

    def _is_unwanted(self, step: Step, planned: Plan) -> bool:
        if planned.step == step:
            return False
        if not isinstance(step, Start | Resume) or self.view.end is not None:
            return True
        # A container that runs is still being started while its postStart hook is.
        return not self.view.seen(step.container).is_running

    async def _guarded(self, step: Step) -> None:
        """Troubles are written down, and tried again later."""
        began = self._around.clock()
        # In the step's own task: whatever it logs and writes carries the id.
        request_ids.current.set(request_ids.new())
        try:
            await self._do(step)
        except PodRefused as error:
            self._note(WARNING, error.reason, str(error))
            self._end(End(Why.FAILED, 0.0, error.reason, str(error)))
        except (PodTrouble, RuntimeFailure, OSError) as error:
            self._trouble(step, error)
            if not isinstance(step, SetUp | MakeSandbox):
                await asyncio.sleep(backoff.try_seconds(self.view.failures))
        else:
            seconds = round(self._around.clock() - began, 4)
            log.debug(
                "pod step done", extra={"pod": str(self.key), "step": type(step).__name__, "seconds": seconds}
            )
            if not isinstance(step, SetUp):
                self.view.failures, self.view.trouble = 0, None

    def _trouble(self, step: Step, error: Exception) -> None:
        view = self.view
        is_end = isinstance(step, Discard | DropSandbox | Dismantle)
        view.failures += 1
        view.retry_at = self._around.clock() + backoff.try_seconds(view.failures)
        usual = "FailedKillPod" if is_end else "FailedCreatePodSandBox"
        event = error.event if isinstance(error, PodTrouble) else usual
        view.trouble = Waiting(error.reason if isinstance(error, PodTrouble) else "ContainerCreating")
        log.info("pod in trouble", extra={"pod": str(self.key), "error": str(error)})
        if event and view.failures > 1:
            # The first time it is most often only a matter of order: the network is told a moment later.
            self._note(WARNING, event, str(error))

    async def _do(self, step: Step) -> None:
        match step:
            case SetUp():
                self._around.admission.admit(self.key, self.pod)
                await self.site.set_up(self.pod)
                self.view.is_set_up, self.view.given = True, resources_of(self.pod["spec"])
            case MakeSandbox(attempt=attempt):
                await self._make_sandbox(attempt)
            case Start(container=name, attempt=attempt):
                await self._start(self._wanted(name), attempt)
            case Resume(container=name, id=id):
                await self._resume(self._wanted(name), id)
            case Discard(container=name, id=id):
                await self.site.discard(id)
                seen = self.view.seen(name)
                seen.stale = [each for each in seen.stale if each != id]
            case Resize():
                await self._resize()
            case DropSandbox():
                await self._drop_sandbox()
            case Dismantle():
                await self._dismantle()
            case _:
                assert_never(step)

    # Steps

    async def _make_sandbox(self, attempt: int) -> None:
        """The view changes when it is done: while it is not, the plan must go on saying the same."""
        found = self.view.sandbox
        id = found.id if found is not None else marks.sandbox_id(self.key, attempt)
        async with self._around.starts:
            try:
                if found is None:
                    await self.site.make_sandbox(self.pod, attempt)
                await self.site.runtime.start(id)
                running = await self.site.runtime.status(id)
            except BaseException:
                # Two sandboxes of one pod would share its network: there is none before this one is gone.
                await asyncio.shield(self.site.discard(id))
                self.view.sandbox, self.view.next_sandbox = None, attempt + 1
                raise
        self.view.sandbox, self.view.next_sandbox = running, attempt + 1
        self._lives.watch("", id)

    async def _start(self, container: Wanted, attempt: int) -> None:
        sandbox, seen = self.view.sandbox, self.view.seen(container.name)
        assert sandbox is not None
        mark: Mark | None = None
        try:
            await self.site.fetch(self.pod, container, attempt)
            async with self._around.starts:
                mark = await self.site.make_container(self.pod, container, attempt, sandbox)
                self._note(NORMAL, "Created", f"Created container: {container.name}")
                await self.site.runtime.start(marks.container_id(self.key, container.name, attempt))
        except ContainerTrouble as error:
            self._container_trouble(seen, error)
        except CreateFailed as error:
            await self._could_not_run(container, attempt, mark, str(error))
        except (RuntimeFailure, OSError) as error:
            # The node's trouble, not the container's: a full disk, most likely.
            await self.site.discard(marks.container_id(self.key, container.name, attempt))
            self._container_trouble(
                seen, ContainerTrouble("Failed", f"Error: {error}", "CreateContainerError")
            )
        except BaseException:
            if mark is not None:
                # Not wanted any more: it is known, so that it is stopped and removed as every other.
                await asyncio.shield(self._began_running(container, mark))
            raise
        else:
            await self._began_running(container, mark)
            self._note(NORMAL, "Started", f"Started container {container.name}")
            await self._after_start(container)

    async def _resume(self, container: Wanted, id: ContainerId) -> None:
        current = self.view.seen(container.name).current
        mark = marks.read(current.status.labels) if current is not None else None
        assert mark is not None
        try:
            await self.site.runtime.start(id)
        except (RuntimeFailure, OSError) as error:
            await self._could_not_run(container, mark.attempt, mark, str(error))
            return
        await self._began_running(container, mark)
        await self._after_start(container)

    async def _began_running(self, container: Wanted, mark: Mark) -> None:
        id = marks.container_id(self.key, container.name, mark.attempt)
        seen = self.view.seen(container.name)
        found = await self.site.runtime.status(id)
        self._advance(seen, Attempt(mark.attempt, found, mark.image, mark.image_id))
        seen.waiting, seen.doom, seen.failures = None, "", 0
        seen.is_started = seen.is_ready = False
        self._lives.watch(container.name, id)

    async def _after_start(self, container: Wanted) -> None:
        hook = (container.spec.get("lifecycle") or {}).get("postStart")
        seen = self.view.seen(container.name)
        if hook and seen.current is not None and seen.is_running and not is_hollow(self.site):
            try:
                await hooks.run(hook, container.spec, self.site, seen.current.status.id)
            except hooks.HookFailed as error:
                self._note(WARNING, "FailedPostStartHook", f"PostStartHook failed: {error}")
                seen.doom = f"FailedPostStartHook: container {container.name}"
                return
        self._lives.probe(container)

    def _advance(self, seen: Seen, attempt: Attempt) -> None:
        before = seen.current
        if before is not None and before.number != attempt.number:
            if seen.previous is not None and seen.previous.status.created_at:
                seen.stale = (*seen.stale, seen.previous.status.id)
            seen.previous = before
        seen.current = attempt
        seen.next_attempt = max(seen.next_attempt, attempt.number + 1)

    def _container_trouble(self, seen: Seen, error: ContainerTrouble) -> None:
        seen.failures += 1
        waits = error.retry_seconds
        if waits is None:
            waits = backoff.try_seconds(seen.failures)
        elif error.reason == "ErrImagePull":
            waits = min(waits, backoff.TOLD_SECONDS)  # The next time it says that it waits.
        seen.retry_at = self._around.clock() + waits
        seen.waiting = Waiting(error.reason, str(error))
        if error.event:
            self._note(WARNING, error.event, str(error))

    async def _could_not_run(self, container: Wanted, attempt: int, mark: Mark | None, why: str) -> None:
        """Its image is there, but its command is not, or the runtime cannot run it: an end like any other."""
        id = marks.container_id(self.key, container.name, attempt)
        await self.site.discard(id)
        sandbox, now = self.view.sandbox, self._around.wall()
        code = 127 if "not found" in why or "no such file" in why.lower() else 128
        ended = Status(id, sandbox.id if sandbox else id, Phase.EXITED, {}, 0.0, 0.0, now, code)
        seen = self.view.seen(container.name)
        image = (mark.image, mark.image_id) if mark else (str(container.spec.get("image", "")), "")
        self._advance(seen, Attempt(attempt, ended, *image, "ContainerCannotRun", why))
        self._note(WARNING, "Failed", f"Error: {why}")
        self._lives.ended(container, seen, Waiting("RunContainerError", why))

    async def _resize(self) -> None:
        spec = self.pod["spec"]
        running = {}
        for each in wanted(spec):
            seen = self.view.seen(each.name)
            if seen.current is not None and seen.is_running:
                running[seen.current.status.id] = each.spec
        try:
            await self.site.resize(self.pod, running)
        except OSError as error:
            # Less memory than it uses, most likely: it keeps what it has.
            self._note(WARNING, "FailedResize", str(error))
        self.view.given = resources_of(spec)

    async def _drop_sandbox(self) -> None:
        sandbox = self.view.sandbox
        assert sandbox is not None
        self._note(NORMAL, "SandboxChanged", "Pod sandbox changed, it will be killed and re-created.")
        await self.site.drop_sandbox(sandbox.id)
        for seen in self.view.containers.values():
            seen.stale = ()
        self.view.sandbox, self.view.is_set_up = None, False

    async def _dismantle(self) -> None:
        # Told before it is forgotten: after this, nobody could find out how its containers ended.
        self._tell()
        await self._report.finish()
        await self.site.dismantle()
        self.view.sandbox, self.view.is_set_up, self.view.is_clean = None, False, True
        self.cleaned.set()

    # Telling

    def _tell(self) -> None:
        self._report.tell(self.pod, self.view, self.site)

    def _note(self, type_: str, reason: str, message: str) -> None:
        self._around.note(self.key, type_, reason, message)

    # Time

    def _start_of(self, pod: Object) -> float:
        """When the pod began, by the monotonic clock."""
        told = (pod.get("status") or {}).get("startTime")
        ago = max(0.0, self._around.wall() - meta.parse_time(told)) if told else 0.0
        return self._around.clock() - ago

    def _deadline(self) -> float | None:
        seconds = self.pod["spec"].get("activeDeadlineSeconds")
        return None if seconds is None or self.view.end is not None else self._began + float(seconds)

    def _check_deadline(self) -> None:
        deadline = self._deadline()
        if deadline is not None and self._around.clock() >= deadline:
            told = "Pod was active on the node longer than the specified deadline"
            self.fail("DeadlineExceeded", told, grace_of_pod(self.pod["spec"]))

    def _wanted(self, name: str) -> Wanted:
        return next(each for each in wanted(self.pod["spec"]) if each.name == name)

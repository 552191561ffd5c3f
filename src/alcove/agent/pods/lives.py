"""Containers that run: watched until they end, probed while they live, stopped when they must."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from msgspec import structs

from alcove.agent.pods import ends, marks
from alcove.agent.pods.containers import Wanted, wanted
from alcove.agent.pods.plan import Stop
from alcove.agent.pods.probing import ears, has_probes
from alcove.agent.pods.site import Site
from alcove.agent.pods.stopping import Stopping, signal_of
from alcove.agent.pods.surroundings import NORMAL, WARNING, Surroundings
from alcove.agent.pods.view import Attempt, Seen, View, Waiting
from alcove.agent.probes.prober import Prober
from alcove.agent.runtime.base import ContainerId, Isolation, Phase, RuntimeFailure, Status
from alcove.api.objects import Object

_LOST = 137


def is_hollow(site: Site) -> bool:
    """Nothing runs that could be asked how it is."""
    return site.runtime.isolation is Isolation.NONE


class Lives:
    """Of one pod. What becomes of its containers is written into the view, and the worker woken."""

    def __init__(
        self,
        site: Site,
        view: View,
        around: Surroundings,
        tasks: asyncio.TaskGroup,
        pod: Callable[[], Object],
        wake: Callable[[], None],
    ) -> None:
        self._site = site
        self._view = view
        self._around = around
        self._tasks = tasks
        self._pod = pod
        self._wake = wake
        self._watched: dict[ContainerId, asyncio.Task[None]] = {}
        self._stopping: dict[str, tuple[Stopping, asyncio.Task[None]]] = {}
        self._probing: dict[str, asyncio.Task[None]] = {}

    def leave(self) -> None:
        """Containers go on; nobody looks after them any more."""
        for task in (*self._watched.values(), *self._probing.values()):
            task.cancel()
        for _, task in self._stopping.values():
            task.cancel()

    def adopt(self) -> None:
        view = self._view
        if view.sandbox is not None and view.sandbox.phase is Phase.RUNNING:
            self.watch("", view.sandbox.id)
        for each in wanted(self._pod()["spec"]):
            seen = view.seen(each.name)
            if seen.current is not None and seen.is_running:
                self.watch(each.name, seen.current.status.id)
                self.probe(each)
            elif seen.current is not None and seen.is_over:
                seen.current = self._with_last_words(each, seen.current)
                self.ended(each, seen)
            if seen.previous is not None:
                seen.previous = self._with_last_words(each, seen.previous)

    def watch(self, name: str, id: ContainerId) -> None:
        self._watched[id] = self._tasks.create_task(self._await_end(name, id), name=f"end of {id}")

    async def _await_end(self, name: str, id: ContainerId) -> None:
        try:
            found = await self._site.runtime.wait(id)
        except RuntimeFailure:
            found = self._lost(name, id)
        del self._watched[id]
        if not name:
            if self._view.sandbox is not None and self._view.sandbox.id == id:
                self._view.sandbox = found
        else:
            container, seen = self._wanted(name), self._view.seen(name)
            if seen.current is not None and seen.current.status.id == id:
                ended = structs.replace(seen.current, status=found)
                seen.current = self._with_last_words(container, ended)
                self.ended(container, seen)
        self._wake()

    def _lost(self, name: str, id: ContainerId) -> Status:
        """It is gone, and nobody knows how it ended."""
        current = self._view.seen(name).current if name else None
        known = current.status if current is not None else self._view.sandbox
        sandbox = known.sandbox if known is not None else id
        started = known.started_at if known is not None else 0.0
        return Status(id, sandbox, Phase.EXITED, {}, 0.0, started, self._around.wall(), _LOST)

    def _with_last_words(self, container: Wanted, ended: Attempt) -> Attempt:
        mark = marks.read(ended.status.labels)
        if mark is None:
            return ended
        return structs.replace(ended, message=self._site.last_words(container, mark, ended.status))

    def ended(self, container: Wanted, seen: Seen, waiting: Waiting | None = None) -> None:
        assert seen.current is not None
        self._quiet(container.name)
        seen.is_ready = seen.is_started = False
        seen.doom = ""
        told = ends.after(container, seen, self._pod()["spec"], self._around.clock())
        seen.waiting = waiting
        if told is not None and self._view.end is None:
            seen.waiting = Waiting("CrashLoopBackOff", f"{told} pod={self._named}")
            message = f"Back-off restarting failed container {container.name} in pod {self._named}"
            self._note(WARNING, "BackOff", message)

    @property
    def _named(self) -> str:
        return f"{self._site.key.name}_{self._site.key.namespace}({self._site.key.uid})"

    def _quiet(self, name: str) -> None:
        """Nobody probes it or stops it any more."""
        if (probing := self._probing.pop(name, None)) is not None:
            probing.cancel()
        if (stopping := self._stopping.pop(name, None)) is not None:
            stopping[1].cancel()

    def stop(self, stop: Stop) -> None:
        name = stop.container
        if name in self._stopping:
            self._stopping[name][0].hasten(stop.grace_seconds)
            return
        container, seen = self._wanted(name), self._view.seen(name)
        assert seen.current is not None
        id = seen.current.status.id
        self._note(NORMAL, "Killing", stop.message)

        def hook_failed(why: str) -> None:
            self._note(WARNING, "FailedPreStopHook", f"PreStopHook failed: {why}")

        sent = signal_of(container.spec, marks.read(seen.current.status.labels))
        stopping = Stopping(
            self._site, container.spec, id, sent, stop.grace_seconds, self._around.clock, hook_failed
        )
        task = self._tasks.create_task(stopping.run(), name=f"stop {id}")
        self._stopping[name] = (stopping, task)

    def probe(self, container: Wanted) -> None:
        seen = self._view.seen(container.name)
        if seen.current is None or not seen.is_running:
            return
        if is_hollow(self._site) or not has_probes(container.spec):
            seen.is_started = seen.is_ready = True
            self._wake()
            return
        id = seen.current.status.id
        prober = Prober(self._site, container.spec, id, ears(container.name, seen, self._wake, self._note))
        task = self._tasks.create_task(prober.run(seen.is_started), name=f"probes of {id}")
        self._probing[container.name] = task

    def _note(self, type_: str, reason: str, message: str) -> None:
        self._around.note(self._site.key, type_, reason, message)

    def _wanted(self, name: str) -> Wanted:
        return next(each for each in wanted(self._pod()["spec"]) if each.name == name)

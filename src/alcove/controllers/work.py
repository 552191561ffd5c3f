"""Working: from planes and a list of controllers to running loops, in the one order that is right."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct, field

from alcove.client.events import Recorder
from alcove.client.keys import HOME, PlaneId
from alcove.client.planes import Planes
from alcove.client.transport import Transport
from alcove.component.tasks import BackgroundTasks
from alcove.controllers.controller import Clock, Controller, Options, Setup
from alcove.controllers.everything import Everything
from alcove.controllers.loop import Loop
from alcove.controllers.metrics import Metrics


class Work(Struct, frozen=True, kw_only=True):
    controllers: Sequence[type[Controller]]
    clock: Clock
    authorities: dict[PlaneId, str] = field(default_factory=dict)
    """Who signs for each plane. Planes come and go."""
    options: Options = Options()
    metrics: Metrics


Follow = Callable[[Planes, BackgroundTasks], None]
"""Begins to follow further planes, by tasks of this group."""


async def work(
    wanted: Work,
    planes: Planes,
    home: Transport,
    began: Callable[[], None] = lambda: None,
    follow: Follow = lambda _planes, _tasks: None,
) -> None:
    """Runs the controllers until cancelled, or until one of them fails as a whole. `began` is called when
    everything there is on the home plane was seen and the loops run. Other planes join when they can be
    reached: they keep nobody waiting."""
    async with planes, BackgroundTasks() as tasks:
        planes.join(HOME, home)
        recorder = Recorder(planes.client, wanted.clock)
        everything = Everything(planes)
        # Which kinds are custom must be known before the others are mirrored.
        await planes.synced()
        await everything.start()
        setup = Setup(
            planes=planes,
            everything=everything,
            recorder=recorder,
            clock=wanted.clock,
            authorities=wanted.authorities,
            options=wanted.options,
        )
        controllers = [controller(setup) for controller in wanted.controllers]
        # No loop runs before all mirrors are whole: half of them would look like objects that are gone.
        await planes.synced()
        tasks.restart("event recorder", recorder.run)
        for controller in controllers:
            loop = Loop(controller, wanted.metrics.loop(controller.name))
            tasks.fatal(f"controller {controller.name}", loop.run())
        follow(planes, tasks)
        began()

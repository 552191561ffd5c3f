"""Working: from planes and a list of controllers to running loops, in the one order that is right."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct, field

from alcove.client.events import EventRecorder
from alcove.client.keys import HOME, PlaneId
from alcove.client.planes import Planes
from alcove.client.transport import Transport
from alcove.component.tasks import BackgroundTasks
from alcove.controllers.controller import Clock, Controller, ControllerContext, ControllerOptions
from alcove.controllers.loop import ControllerLoop
from alcove.controllers.metadata_cache import MetadataCache
from alcove.controllers.metrics import ControllerMetrics


class ControllerRunner(Struct, frozen=True, kw_only=True):
    controllers: Sequence[type[Controller]]
    clock: Clock
    authorities: dict[PlaneId, str] = field(default_factory=dict)
    """Who signs for each plane. Planes come and go."""
    options: ControllerOptions = ControllerOptions()
    metrics: ControllerMetrics


Follow = Callable[[Planes, BackgroundTasks], None]
"""Begins to follow further planes, by tasks of this group."""


async def work(
    desired: ControllerRunner,
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
        recorder = EventRecorder(planes.client, desired.clock)
        metadata_cache = MetadataCache(planes)
        # Which kinds are custom must be known before the others are mirrored.
        await planes.synced()
        await metadata_cache.start()
        context = ControllerContext(
            planes=planes,
            metadata_cache=metadata_cache,
            recorder=recorder,
            clock=desired.clock,
            authorities=desired.authorities,
            options=desired.options,
        )
        controllers = [controller(context) for controller in desired.controllers]
        # No loop runs before all mirrors are whole: half of them would look like objects that are gone.
        await planes.synced()
        tasks.restart("event recorder", recorder.run)
        for controller in controllers:
            loop = ControllerLoop(controller, desired.metrics.loop(controller.name))
            tasks.fatal(f"controller {controller.name}", loop.run())
        follow(planes, tasks)
        began()

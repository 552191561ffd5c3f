"""Starts and runs the controllers: mirrors are complete before any controller loop begins."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from msgspec import Struct, field

from alcove.client.events import EventRecorder
from alcove.client.keys import HOME, PlaneId
from alcove.client.planes import Planes
from alcove.client.transport import Transport
from alcove.component.tasks import BackgroundTasks
from alcove.controllers.controller import Clock, Controller, ControllerContext, ControllerOptions
from alcove.controllers.loop import ControllerLoop, subscribe
from alcove.controllers.metadata_cache import MetadataCache
from alcove.controllers.metrics import ControllerMetrics


class ControllerRunner(Struct, frozen=True, kw_only=True):
    controllers: Sequence[type[Controller]]
    clock: Clock
    authorities: dict[PlaneId, str] = field(default_factory=dict)
    """Each plane's certificate authority, in PEM. Updated while running, as planes join and leave."""
    options: ControllerOptions = ControllerOptions()
    metrics: ControllerMetrics


Follow = Callable[[Planes, BackgroundTasks], Awaitable[None]]
"""Begins to join and leave further planes, with tasks in the given group. When it returns, all planes that there
are now are in `awaited`."""


async def work(
    runner: ControllerRunner,
    planes: Planes,
    home: Transport,
    began: Callable[[], None] = lambda: None,
    follow: Follow | None = None,
) -> None:
    """Runs the controllers until cancelled, or until a controller loop fails. `began` is called when the
    mirrors of the home plane are synced and the loops run. Other planes join when they become reachable;
    the start does not wait for them."""
    async with planes, BackgroundTasks() as tasks:
        planes.join(HOME, home)
        recorder = EventRecorder(planes.client, runner.clock)
        metadata_cache = MetadataCache(planes)
        context = ControllerContext(
            planes=planes,
            metadata_cache=metadata_cache,
            recorder=recorder,
            clock=runner.clock,
            authorities=runner.authorities,
            options=runner.options,
            metrics=runner.metrics,
        )
        shard = planes.shard
        controllers = [
            controller(context)
            for controller in runner.controllers
            if shard is None or shard.has_system or not controller.is_ring0
        ]
        # CRDs must be synced first: custom kinds are mirrored per plane, built-in kinds for all planes.
        await metadata_cache.crds.synced()
        await metadata_cache.start()
        # No loop runs before all mirrors are synced: a missing object would look like a deleted one.
        await planes.synced()
        if follow is not None:
            await follow(planes, tasks)
        tasks.restart("event recorder", recorder.run)
        index = shard.index if shard is not None else 0
        loops = [ControllerLoop(each, runner.metrics.loop(each.name, index)) for each in controllers]
        tasks.fatal("controllers", _run(loops))
        began()


async def _run(loops: Sequence[ControllerLoop]) -> None:
    await subscribe(loops)
    async with BackgroundTasks() as tasks:
        for loop in loops:
            tasks.fatal(f"controller {loop.controller.name}", loop.run())

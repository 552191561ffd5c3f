"""Controllers in the test's process, on a real API server; several sets can run at the same time.

    with RunningControllers(server.admin_kubeconfig, (VpcController, SubnetController)):
        server.system.post(…)
        wait_until(lambda: …)

They run in their own thread, without a lease: the test decides which sets run concurrently.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from types import TracebackType

from alcove.api.tenant_shards import TenantShard
from alcove.client import kubeconfig
from alcove.client.keys import HOME, PlaneId
from alcove.client.planes import Planes
from alcove.client.pool import HttpPool
from alcove.client.transport import Transport
from alcove.controllers.controller import Controller, ControllerOptions
from alcove.controllers.metrics import ControllerMetrics
from alcove.controllers.runner import ControllerRunner, Follow, work

START_SECONDS_MAX = 90.0


class RunningControllers:
    def __init__(
        self,
        path: Path,
        controllers: Sequence[type[Controller]],
        options: ControllerOptions | None = None,
        *,
        through: Callable[[Transport], Transport] = lambda transport: transport,
        clock: Callable[[], float] = time.time,
        awaited: Collection[str] = (),
        follow: Follow | None = None,
        shard: TenantShard | None = None,
    ) -> None:
        """`through` wraps the transport to the server, for example to inject faults. `awaited` are dedicated planes that
        do not respond; `follow` joins others. `shard`: the tenants that they work for; None for all."""
        self._follow = follow
        self._shard = shard
        self._clock = clock
        self._awaited = awaited
        self._path = path
        self._controllers = controllers
        self._options = options or ControllerOptions()
        self._through = through
        self._started = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.error: BaseException | None = None

    def __enter__(self) -> RunningControllers:
        self._thread.start()
        if not self._started.wait(START_SECONDS_MAX) or self.error is not None:
            raise RuntimeError("the controllers did not start") from self.error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._loop is not None and self._task is not None:
            self._loop.call_soon_threadsafe(self._task.cancel)
        self._thread.join(START_SECONDS_MAX)
        if self.error is not None and error is None:
            raise RuntimeError("the controllers failed") from self.error

    def _run(self) -> None:
        try:
            asyncio.run(self._main())
        except asyncio.CancelledError:
            pass
        except BaseException as error:
            self.error = error
        finally:
            self._started.set()

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        user = kubeconfig.load(self._path)
        transport = HttpPool(user)
        wanted = ControllerRunner(
            controllers=self._controllers,
            clock=self._clock,
            authorities={HOME: user.ca_pem.decode()},
            options=self._options,
            metrics=ControllerMetrics(),
        )
        try:
            planes = Planes(shard=self._shard)
            planes.awaited.update(map(PlaneId, self._awaited))
            await work(wanted, planes, self._through(transport), self._started.set, self._follow)
        finally:
            await transport.close()

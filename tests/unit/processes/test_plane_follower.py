"""Which planes a process knows when its work begins."""

import asyncio
from pathlib import Path

from alcove.client.keys import PlaneId
from alcove.client.transport import Transport
from alcove.component.tasks import BackgroundTasks
from alcove.processes.plane_follower import DedicatedPlane

KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: it
contexts: [{name: it, context: {cluster: it, user: it}}]
clusters: [{name: it, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: it, user: {token: x}}]
"""


class RecordedJoins:
    """Planes in the order in which they were joined."""

    def __init__(self) -> None:
        self.planes: list[PlaneId] = []

    def ids(self) -> list[PlaneId]:
        return self.planes

    def join(self, plane: PlaneId, _transport: Transport) -> None:
        self.planes.append(plane)

    async def leave(self, plane: PlaneId) -> None:
        self.planes.remove(plane)


async def test_no_work_begins_before_every_plane_of_the_directory_is_known(tmp_path: Path) -> None:
    """A tenant whose plane is unknown would be deleted without emptying its plane."""
    for name in ("beta", "gamma"):
        (tmp_path / f"{name}.kubeconfig").write_text(KUBECONFIG)
    joins = RecordedJoins()
    known: asyncio.Future[list[PlaneId]] = asyncio.get_running_loop().create_future()

    async def process() -> None:
        async with BackgroundTasks() as tasks:
            await DedicatedPlane({}, tmp_path).follow(joins, tasks)
            known.set_result(list(joins.planes))

    running = asyncio.create_task(process())
    assert await known == ["beta", "gamma"]
    running.cancel()
    await asyncio.wait([running])

"""Planes are joined, left, and joined again with other credentials, as their source says."""

import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest

from alcove.client import kubeconfig
from alcove.client.errors import PlaneStopped, Unreachable
from alcove.client.keys import PlaneId
from alcove.client.transport import Transport
from alcove.processes.plane_follower import DirectoryPlanes, FoundPlane, PlaneFollower

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
        self.transports: dict[PlaneId, Transport] = {}

    def ids(self) -> list[PlaneId]:
        return self.planes

    def join(self, plane: PlaneId, transport: Transport) -> None:
        self.planes.append(plane)
        self.transports[plane] = transport

    async def leave(self, plane: PlaneId) -> None:
        self.planes.remove(plane)


async def test_planes_are_those_of_the_directory(tmp_path: Path) -> None:
    for name in ("beta", "gamma"):
        (tmp_path / f"{name}.kubeconfig").write_text(KUBECONFIG)
    joins, told = RecordedJoins(), []
    follower = PlaneFollower(
        DirectoryPlanes(tmp_path), joins, lambda plane, user: told.append((plane, bool(user)))
    )
    await follower.poll()
    assert joins.planes == ["beta", "gamma"] and follower.polled.is_set()
    (tmp_path / "beta.kubeconfig").write_text(KUBECONFIG.replace("token: x", "token: y"))
    (tmp_path / "gamma.kubeconfig").unlink()
    (tmp_path / "broken.kubeconfig").write_text("{}")
    await follower.poll()
    assert joins.planes == ["beta"]
    assert told == [("beta", True), ("gamma", True), ("gamma", False), ("beta", True)]


async def test_a_plane_that_was_configured_otherwise_is_not_joined_twice(tmp_path: Path) -> None:
    (tmp_path / "beta.kubeconfig").write_text(KUBECONFIG)
    joins = RecordedJoins()
    joins.planes.append(PlaneId("beta"))
    await PlaneFollower(DirectoryPlanes(tmp_path), joins, lambda _plane, _user: None).poll()
    assert joins.planes == ["beta"]


class OnePlane:
    """A source with one plane, whose address nobody listens at."""

    def __init__(self, path: Path) -> None:
        path.write_text(KUBECONFIG)
        self._path = path
        self.is_running = True

    async def read(self) -> Mapping[PlaneId, FoundPlane]:
        found = FoundPlane(b"", lambda: kubeconfig.load(self._path), is_running=self.is_running)
        return {PlaneId("beta"): found}


async def test_nothing_is_sent_to_a_stopped_api_server_and_watches_wait(tmp_path: Path) -> None:
    source, joins = OnePlane(tmp_path / "kubeconfig"), RecordedJoins()
    source.is_running = False
    follower = PlaneFollower(source, joins, lambda _plane, _user: None)
    await follower.poll()
    transport = joins.transports[PlaneId("beta")]
    with pytest.raises(PlaneStopped):
        await transport.request("GET", "/", {})

    async def watch() -> None:
        async with transport.stream("/", {}):
            raise AssertionError("nobody listens")

    watching = asyncio.create_task(watch())
    await asyncio.sleep(0)
    assert not watching.done()
    source.is_running = True
    await follower.poll()
    with pytest.raises(Unreachable) as error:
        await watching
    assert not isinstance(error.value, PlaneStopped)
    await transport.close()

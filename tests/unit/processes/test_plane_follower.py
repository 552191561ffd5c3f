"""Planes are joined, left, and joined again with other credentials, as their source says."""

from pathlib import Path

from alcove.client.keys import PlaneId
from alcove.client.transport import Transport
from alcove.processes.plane_follower import DirectoryPlanes, PlaneFollower

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

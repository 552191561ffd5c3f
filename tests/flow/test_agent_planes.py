"""One node for two planes: pods of the same name on both, a plane that is away, and one that is removed."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from alcove.api.objects import Object
from alcove.testing.agent import LocalAgent, node_kubeconfig
from alcove.testing.cluster import PODS, condition
from alcove.testing.server import Caller, LocalServer, wait_until

_NUMBERS = count(2)


class Planes:
    def __init__(self, directory: Path) -> None:
        self.home, self.own = LocalServer(directory / "home"), LocalServer(directory / "own")
        self._directory = directory

    def start(self) -> None:
        for server in (self.home, self.own):
            server.start()
        self.acme, self.beta = self.home.make_tenant("acme"), self.own.make_tenant("beta")

    def agent(self, *options: str) -> LocalAgent:
        ways = [node_kubeconfig(server, "n1") for server in (self.home, self.own)]
        return LocalAgent(
            ways[0], self._directory / "n1", "n1", "--hollow", "--plane", f"beta={ways[1]}", *options
        )

    def stop(self) -> None:
        for server in (self.home, self.own):
            server.stop()

    def create(self, caller: Caller, tenant: str, name: str) -> str:
        """A pod on the node, with the address that ring0 gives it."""
        containers = [{"name": "main", "image": "alcove/busybox"}]
        wanted = {"metadata": {"name": name}, "spec": {"nodeName": "n1", "containers": containers}}
        answer = caller.post(PODS, wanted)
        assert answer.status == 201, answer.body
        uid = str(answer.json["metadata"]["uid"])
        address = f"10.7.0.{next(_NUMBERS)}"
        spec = {
            "type": "simple", "status": "Provisioned", "ip": address, "prefix": "24", "vni": "77",
            "vpc": "v", "net": "s", "droplet": "n1", "pod": f"{tenant}/default/{name}", "itf": "eth0",
        }  # fmt: skip
        made = {"metadata": {"name": f"{tenant}-{name}", "labels": {"mizar.com/owner": uid}}, "spec": spec}
        answer = self.home.system.post("/apis/mizar.com/v1/endpoints", made)
        assert answer.status == 201, answer.body
        return address


@pytest.fixture
def planes(tmp_path: Path) -> Iterator[Planes]:
    made = Planes(tmp_path)
    made.start()
    yield made
    made.stop()


def is_ready(caller: Caller, name: str) -> Object | None:
    found: Object = caller.get(f"{PODS}/{name}").json
    return found if condition(found, "Ready") == "True" else None


def test_pods_of_both_planes_run_beside_each_other(planes: Planes) -> None:
    with planes.agent():
        addresses = {
            "acme": planes.create(planes.acme, "acme", "web"),
            "beta": planes.create(planes.beta, "beta", "web"),
        }
        for tenant, caller in (("acme", planes.acme), ("beta", planes.beta)):
            found: Object = wait_until(lambda caller=caller: is_ready(caller, "web"))
            assert found["status"]["podIP"] == addresses[tenant]
        planes.beta.delete(f"{PODS}/web")
        wait_until(lambda: planes.beta.get(f"{PODS}/web").status == 404)
        assert is_ready(planes.acme, "web")

        def reasons() -> set[str]:
            """On the pod's own plane."""
            events = planes.beta.get("/api/v1/namespaces/default/events").json["items"]
            return {each["reason"] for each in events}

        wait_until(lambda: {"Started", "Killing"} <= reasons())


def test_a_plane_that_is_away_changes_nothing_for_the_other(planes: Planes) -> None:
    with planes.agent():
        planes.create(planes.beta, "beta", "stays")
        wait_until(lambda: is_ready(planes.beta, "stays"))
        planes.own.kill()
        planes.create(planes.acme, "acme", "comes")
        wait_until(lambda: is_ready(planes.acme, "comes"))
        planes.own.start()
        assert is_ready(planes.beta, "stays")
        planes.create(planes.beta, "beta", "later")
        wait_until(lambda: is_ready(planes.beta, "later"))


def test_planes_come_and_go_while_the_agent_runs(planes: Planes, tmp_path: Path) -> None:
    folder = tmp_path / "planes"
    folder.mkdir()
    way = node_kubeconfig(planes.own, "n1")
    agent = LocalAgent(
        node_kubeconfig(planes.home, "n1"), tmp_path / "n1", "n1", "--hollow", "--planes", str(folder)
    )
    with agent:
        planes.create(planes.acme, "acme", "web")
        planes.create(planes.beta, "beta", "web")
        wait_until(lambda: is_ready(planes.acme, "web"))
        assert not is_ready(planes.beta, "web"), "the node has not joined that plane"
        (folder / "beta.kubeconfig").write_bytes(way.read_bytes())
        wait_until(lambda: is_ready(planes.beta, "web"))
        before = planes.beta.get(f"{PODS}/web").json["status"]["containerStatuses"]
        (folder / "beta.kubeconfig").write_text(f"# another certificate, say\n{way.read_text()}")
        wait_until(lambda: agent.log.count('"plane joined" plane=beta') == 2)
        planes.create(planes.beta, "beta", "another")
        wait_until(lambda: is_ready(planes.beta, "another"))
        assert planes.beta.get(f"{PODS}/web").json["status"]["containerStatuses"] == before
        (folder / "beta.kubeconfig").unlink()
        wait_until(lambda: '"plane left" plane=beta' in agent.log)
        assert is_ready(planes.acme, "web")
        (folder / "beta.kubeconfig").write_bytes(way.read_bytes())
        planes.create(planes.beta, "beta", "again")
        wait_until(lambda: is_ready(planes.beta, "again"))

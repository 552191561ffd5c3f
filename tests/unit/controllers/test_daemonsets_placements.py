"""Which daemon sets are reconciled when a node changes."""

from typing import Any

import pytest

from alcove.api.ids import SYSTEM, Revision
from alcove.api.objects import Object
from alcove.client.changes import ObjectChange
from alcove.client.client import ListSelection
from alcove.client.keys import HOME, PlaneId
from alcove.client.mirror import Mirror
from alcove.client.resources import DAEMON_SETS, NODES, PODS
from alcove.controllers.daemonsets import fitting, placements
from alcove.controllers.daemonsets.placements import Placements


class Cluster:
    def __init__(self) -> None:
        mirrors = [Mirror(ListSelection(resource)) for resource in (DAEMON_SETS, NODES, PODS)]
        self._sets, self._nodes, self._pods = (mirror.add_plane(HOME) for mirror in mirrors)
        self.placements = Placements(*mirrors)
        self.concerned: list[str] = []
        mirrors[1].subscribe(self._changed)
        self._revision = 0

    def _changed(self, change: ObjectChange) -> None:
        self.concerned = sorted(str(key.tenant) for key in self.placements.concerned(change))

    def _next(self) -> Revision:
        self._revision += 1
        return Revision(self._revision)

    def put_set(self, tenant: str, **spec: Any) -> None:
        metadata = {"tenant": tenant, "namespace": "default", "name": "logs"}
        self._sets.put({"metadata": metadata, "spec": {"template": {"spec": spec}}}, self._next())

    def remove_set(self, tenant: str) -> None:
        metadata = {"tenant": tenant, "namespace": "default", "name": "logs"}
        self._sets.remove({"metadata": metadata, "spec": {}}, self._next())

    def put_pod(self, tenant: str, node: str) -> None:
        owner = {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "name": "logs",
            "uid": "u",
            "controller": True,
        }
        metadata = {"tenant": tenant, "namespace": "default", "name": "p", "ownerReferences": [owner]}
        self._pods.put({"metadata": metadata, "spec": {"nodeName": node}}, self._next())

    def node(self, name: str, beat: int = 0, **labels: str) -> Object:
        metadata = {"tenant": SYSTEM, "name": name, "labels": labels}
        return {"metadata": metadata, "spec": {}, "status": {"beat": beat}}

    def put_node(self, name: str, beat: int = 0, **labels: str) -> list[str]:
        self.concerned = []
        self._nodes.put(self.node(name, beat, **labels), self._next())
        return self.concerned

    def remove_node(self, name: str) -> list[str]:
        self.concerned = []
        self._nodes.remove(self.node(name), self._next())
        return self.concerned


def test_a_node_concerns_the_sets_that_run_on_it() -> None:
    cluster = Cluster()
    cluster.put_set("everywhere")
    cluster.put_set("ssd", nodeSelector={"disk": "ssd"})
    assert cluster.put_node("a") == ["everywhere"]
    assert cluster.put_node("b", disk="ssd") == ["everywhere", "ssd"]
    assert cluster.put_node("b", beat=1, disk="ssd") == []
    assert cluster.put_node("a", disk="ssd") == ["ssd"]
    assert cluster.put_node("a", disk="hdd") == ["ssd"]
    assert cluster.remove_node("a") == ["everywhere"]
    assert list(cluster.placements.nodes) == ["b"]
    cluster.put_set("everywhere", nodeSelector={"disk": "hdd"})
    cluster.remove_set("ssd")
    assert cluster.put_node("c", disk="ssd") == []
    assert cluster.put_node("d", disk="hdd") == ["everywhere"]


def test_a_node_that_comes_again_concerns_the_sets_with_pods_on_it() -> None:
    cluster = Cluster()
    cluster.put_set("ssd", nodeSelector={"disk": "ssd"})
    cluster.put_pod("ssd", "a")
    assert cluster.put_node("a") == ["ssd"]


def test_sets_that_choose_alike_are_compared_once(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster()
    for number in range(200):
        cluster.put_set(f"t{number}", nodeSelector={"disk": "ssd"}, containers=[{"name": f"c{number}"}])
    compared = 0
    real = fitting.fit

    def counted(spec: Object, node: Object) -> Any:
        nonlocal compared
        compared += 1
        return real(spec, node)

    monkeypatch.setattr(placements, "fit", counted)
    assert cluster.put_node("a") == []
    assert compared == 1
    assert len(cluster.put_node("b", disk="ssd")) == 200
    assert compared == 2


def test_a_malformed_set_hides_no_node_from_others() -> None:
    cluster = Cluster()
    cluster.put_set("hostile", nodeSelector="no map")
    cluster.put_set("quiet")
    assert "quiet" in cluster.put_node("a")


def test_a_set_of_a_dedicated_plane_is_found_too() -> None:
    sets, nodes, pods = (Mirror(ListSelection(resource)) for resource in (DAEMON_SETS, NODES, PODS))
    own, home = sets.add_plane(PlaneId("acme")), nodes.add_plane(HOME)
    found = Placements(sets, nodes, pods)
    keys: list[PlaneId] = []
    nodes.subscribe(lambda change: keys.extend(key.plane for key in found.concerned(change)))
    metadata = {"tenant": "acme", "namespace": "default", "name": "logs"}
    own.put({"metadata": metadata, "spec": {"template": {"spec": {}}}}, Revision(1))
    home.put({"metadata": {"tenant": SYSTEM, "name": "a"}, "spec": {}}, Revision(1))
    assert keys == ["acme"]

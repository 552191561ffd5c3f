"""Two planes, one set of nodes: their pods never get more than there is, whatever is away or dies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from alcove.api.objects import Object
from alcove.testing.proxy import BadNetwork
from alcove.testing.scheduler import LocalScheduler
from alcove.testing.scheduling import node, pod
from alcove.testing.server import Caller, LocalServer, wait_until

PODS = "/api/v1/namespaces/default/pods"
LEASE = ("--lease-seconds", "2")
CPU = 4


class TwoPlanes:
    """The home plane, and one that serves the tenant `big` alone; each has a tenant's administrator."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.home = LocalServer(directory / "home")
        self.own = LocalServer(directory / "own")
        self.home.start()
        self.own.start()
        self.home.make_namespace("system", "kube-system")
        self.small = self.home.make_tenant("small")
        self.big = self.own.make_tenant("big")

    def add_nodes(self, count: int) -> None:
        for number in range(count):
            made = node(f"n{number}", cpu=str(CPU))
            del made["metadata"]["uid"]
            assert self.home.system.post("/api/v1/nodes", made).status == 201

    def scheduler(self, *options: str) -> LocalScheduler:
        plane = f"big={self.own.admin_kubeconfig}"
        return LocalScheduler(self.home.admin_kubeconfig, self.directory, "--plane", plane, *LEASE, *options)

    def stop(self) -> None:
        self.own.stop()
        self.home.stop()

    def placed(self) -> Counter[str]:
        """CPUs asked for by pods on each node, over both planes."""
        used: Counter[str] = Counter()
        for caller in (self.small, self.big):
            for each in caller.get(PODS).json["items"]:
                if on := each["spec"].get("nodeName"):
                    used[on] += int(each["spec"]["containers"][0]["resources"]["requests"]["cpu"])
        return used


@pytest.fixture
def planes(tmp_path: Path) -> Iterator[TwoPlanes]:
    made = TwoPlanes(tmp_path)
    yield made
    made.stop()


def create(caller: Caller, name: str, **spec: Any) -> None:
    made: Object = pod(name, **spec)
    del made["metadata"]["uid"], made["spec"]["priority"]
    answer = caller.post(PODS, made)
    assert answer.status == 201, answer.body


def bound(caller: Caller) -> list[str]:
    return [
        each["metadata"]["name"] for each in caller.get(PODS).json["items"] if each["spec"].get("nodeName")
    ]


def test_pods_of_both_planes_share_the_nodes(planes: TwoPlanes) -> None:
    planes.add_nodes(4)
    with planes.scheduler():
        for number in range(12):
            create(planes.small, f"s{number}", cpu="1")
            create(planes.big, f"b{number}", cpu="1")
        wait_until(lambda: len(bound(planes.small)) + len(bound(planes.big)) == 4 * CPU, 20)
        assert planes.placed() == {f"n{number}": CPU for number in range(4)}
        # Neither got all: turns go by shares, whichever plane they are on.
        assert 4 <= len(bound(planes.big)) <= 12
        first = bound(planes.big)[0]
        planes.big.delete(f"{PODS}/{first}?gracePeriodSeconds=0")
        wait_until(lambda: sum(planes.placed().values()) == 4 * CPU)


def test_a_plane_that_is_away_keeps_what_it_has_even_over_a_restart(planes: TwoPlanes) -> None:
    planes.add_nodes(2)
    with planes.scheduler():
        for number in range(6):
            create(planes.big, f"b{number}", cpu="1")
        wait_until(lambda: len(bound(planes.big)) == 6)
    before = planes.placed()
    planes.own.kill()
    with planes.scheduler():
        for number in range(4):
            create(planes.small, f"s{number}", cpu="1")
        # It cannot know that plane's pods, but it knows what they may have.
        wait_until(lambda: _has_told_or_bound(planes.small, 4))
        assert len(bound(planes.small)) <= 2
        planes.own.start()
        wait_until(lambda: len(bound(planes.small)) == 2, 30)
    after = planes.placed()
    assert all(used <= CPU for used in after.values())
    assert sum(after.values()) == sum(before.values()) + 2


def _has_told_or_bound(caller: Caller, count: int) -> bool:
    items = caller.get(PODS).json["items"]
    return sum(bool(each["status"].get("conditions")) for each in items) == count


def test_a_plane_that_comes_back_later_is_served_then(planes: TwoPlanes) -> None:
    planes.add_nodes(1)
    with planes.scheduler():
        planes.own.kill()
        create(planes.small, "s", cpu="1")
        wait_until(lambda: bound(planes.small) == ["s"])
        planes.own.start()
        create(planes.big, "b", cpu="1")
        wait_until(lambda: bound(planes.big) == ["b"], 40)


def _leader(planes: TwoPlanes) -> int:
    """The pid of the scheduler that holds the lease."""
    lease = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler"
    return int(planes.home.system.get(lease).json["spec"]["holderIdentity"].split("_")[1])


def test_killed_at_any_point_no_pod_is_lost_and_no_node_given_twice(planes: TwoPlanes) -> None:
    planes.add_nodes(30)
    schedulers = [planes.scheduler(), planes.scheduler()]
    schedulers[0].start()
    schedulers[0].wait()
    schedulers[1].start()
    try:
        for batch in range(3):
            for number in range(20):
                create(planes.small, f"s{batch}-{number}", cpu="1")
                create(planes.big, f"b{batch}-{number}", cpu="1")
            # In the middle of its work, whatever that is just now; the other takes over.
            leader = _leader(planes)
            (killed,) = (each for each in schedulers if each.pid == leader)
            killed.kill()
            killed.start()
            wait_until(lambda gone=leader: _leader(planes) != gone)
        wait_until(lambda: len(bound(planes.small)) + len(bound(planes.big)) == 120, 60)
    finally:
        for each in schedulers:
            each.stop()
    assert planes.placed() == {f"n{number}": CPU for number in range(30)}


def test_a_bad_network_costs_time_and_nothing_else(planes: TwoPlanes) -> None:
    planes.add_nodes(10)
    with BadNetwork(planes.own.address, seed=7) as network:
        text = planes.own.admin_kubeconfig.read_text()
        through = planes.directory / "through.kubeconfig"
        through.write_text(text.replace(f":{planes.own.address[1]}", f":{network.port}"))
        network.is_rough = True
        plane = f"big={through}"
        with LocalScheduler(planes.home.admin_kubeconfig, planes.directory, "--plane", plane, *LEASE):
            for number in range(25):
                create(planes.big, f"b{number}", cpu="1")
                create(planes.small, f"s{number}", cpu="1")
            network.cut()
            wait_until(lambda: len(bound(planes.small)) + len(bound(planes.big)) == 40, 60)
            assert planes.placed() == {f"n{number}": CPU for number in range(10)}

"""Two planes, one set of nodes: their pods never get more than there is, whatever is away or dies."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from alcove.testing.relay import BadNetwork
from alcove.testing.scheduler import LEASE, NODES, PODS, TwoPlanes, bound, create
from alcove.testing.server import Caller, wait_until

CPU = 4


@pytest.fixture
def planes(tmp_path: Path) -> Iterator[TwoPlanes]:
    made = TwoPlanes(tmp_path, CPU)
    yield made
    made.stop()


def test_pods_of_both_planes_share_the_nodes(planes: TwoPlanes) -> None:
    planes.add_nodes(4)
    with planes.scheduler():
        for number in range(12):
            create(planes.small, f"s{number}", cpu="1")
            create(planes.big, f"b{number}", cpu="1")
        wait_until(lambda: len(bound(planes.small)) + len(bound(planes.big)) == 4 * CPU)
        assert planes.placed() == {f"n{number}": CPU for number in range(4)}
        # Neither got all: turns go by shares, whichever plane they are on.
        assert 4 <= len(bound(planes.big)) <= 12
        first = next(iter(bound(planes.big)))
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
        wait_until(lambda: _has_reported_or_bound(planes.small, 4))
        assert len(bound(planes.small)) <= 2
        planes.own.start()
        wait_until(lambda: len(bound(planes.small)) == 2)
    after = planes.placed()
    assert all(used <= CPU for used in after.values())
    assert sum(after.values()) == sum(before.values()) + 2


@pytest.mark.slow
def test_a_node_that_is_made_anew_still_has_what_an_absent_plane_has_there(planes: TwoPlanes) -> None:
    planes.add_nodes(1)
    with planes.scheduler():
        for number in range(3):
            create(planes.big, f"b{number}", cpu="1")
        wait_until(lambda: len(bound(planes.big)) == 3)
    planes.own.kill()
    planes.home.system.delete(f"{NODES}/n0")
    planes.add_node("n0")
    with planes.scheduler():
        for number in range(4):
            create(planes.small, f"s{number}", cpu="1")
        wait_until(lambda: _has_reported_or_bound(planes.small, 4))
        planes.own.start()
        wait_until(lambda: len(bound(planes.small)) == 1)
        create(planes.small, "last", cpu="1")
        wait_until(lambda: planes.small.get(f"{PODS}/last").json["status"].get("conditions"))
    assert planes.placed() == {"n0": CPU}


@pytest.mark.slow
def test_what_is_noted_of_a_plane_that_is_no_more_is_free(planes: TwoPlanes) -> None:
    planes.add_nodes(1)
    with planes.scheduler():
        create(planes.big, "b", cpu=str(CPU))
        wait_until(lambda: bound(planes.big))
    planes.own.kill()
    planes.home.system.delete("/api/v1/tenants/big")
    finalized = planes.home.system.get("/api/v1/tenants/big").json
    finalized["spec"]["finalizers"] = []
    assert planes.home.system.put("/api/v1/tenants/big/finalize", finalized).status == 200
    with planes.home_scheduler():
        create(planes.small, "s", cpu=str(CPU))
        wait_until(lambda: _has_reported_or_bound(planes.small, 1))
        wait_until(lambda: "s" in bound(planes.small))


def test_planes_come_and_go_with_their_files(planes: TwoPlanes, tmp_path: Path) -> None:
    planes.add_nodes(1)
    folder = tmp_path / "planes"
    folder.mkdir()
    with planes.home_scheduler("--planes", str(folder)) as scheduler:
        create(planes.big, "b", cpu="1")
        create(planes.small, "s", cpu="1")
        wait_until(lambda: "s" in bound(planes.small))
        assert not bound(planes.big)
        kubeconfig = folder / "big.kubeconfig"
        kubeconfig.write_bytes(planes.own.admin_kubeconfig.read_bytes())
        wait_until(lambda: "b" in bound(planes.big))
        kubeconfig.unlink()
        wait_until(lambda: '"plane left" plane=' in scheduler.log)
        create(planes.big, "later", cpu="1")
        # What it had is left alone: its tenant is still there.
        for number in range(CPU):
            create(planes.small, f"s{number}", cpu="1")
        wait_until(lambda: _has_reported_or_bound(planes.small, CPU + 1))
        assert "later" not in bound(planes.big)
        assert all(used <= CPU for used in planes.placed().values())
        kubeconfig.write_bytes(planes.own.admin_kubeconfig.read_bytes())
        wait_until(lambda: sum(planes.placed().values()) == CPU)


def test_a_leader_whose_fence_is_taken_away_takes_it_again(planes: TwoPlanes) -> None:
    planes.add_nodes(1)
    with planes.scheduler():
        create(planes.big, "before", cpu="1")
        wait_until(lambda: bound(planes.big))
        assert planes.own.system.delete(LEASE).status == 200
        create(planes.big, "after", cpu="1")
        wait_until(lambda: "after" in bound(planes.big))


def _has_reported_or_bound(caller: Caller, count: int) -> bool:
    items = caller.get(PODS).json["items"]
    return sum(bool(each["status"].get("conditions")) for each in items) == count


@pytest.mark.slow
def test_a_plane_that_comes_back_later_is_served_then(planes: TwoPlanes) -> None:
    planes.add_nodes(1)
    with planes.scheduler():
        planes.own.kill()
        create(planes.small, "s", cpu="1")
        wait_until(lambda: "s" in bound(planes.small))
        planes.own.start()
        create(planes.big, "b", cpu="1")
        wait_until(lambda: "b" in bound(planes.big))


@pytest.mark.slow
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
            leader = planes.leader()
            (killed,) = (each for each in schedulers if each.pid == leader)
            killed.kill()
            killed.start()
            wait_until(lambda gone=leader: planes.leader() != gone)
        wait_until(lambda: len(bound(planes.small)) + len(bound(planes.big)) == 120)
    finally:
        for each in schedulers:
            each.stop()
    assert planes.placed() == {f"n{number}": CPU for number in range(30)}


@pytest.mark.slow
def test_a_bad_network_costs_time_and_nothing_else(planes: TwoPlanes) -> None:
    planes.add_nodes(10)
    with BadNetwork(planes.own.address, seed=7) as network:
        text = planes.own.admin_kubeconfig.read_text()
        through = planes.directory / "through.kubeconfig"
        through.write_text(text.replace(f":{planes.own.address[1]}", f":{network.port}"))
        network.is_rough = True
        with planes.scheduler(own=through):
            for number in range(25):
                create(planes.big, f"b{number}", cpu="1")
                create(planes.small, f"s{number}", cpu="1")
            network.cut()
            wait_until(lambda: len(bound(planes.small)) + len(bound(planes.big)) == 40)
            assert planes.placed() == {f"n{number}": CPU for number in range(10)}

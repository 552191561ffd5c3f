"""Schedulers, planes and nodes are killed, paused, added and removed at any moment: no pod is lost or bound
twice, and no node is overcommitted."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from alcove.testing.relay import BadNetwork
from alcove.testing.scheduler import NODES, PODS, LocalScheduler, TwoPlanes, bound, create
from alcove.testing.server import Caller, wait_until

CPU = 4
NODE_COUNT = 6
STEPS = 25
HELD_UP_SECONDS = 20.0
"""Less than a request to a plane that does not answer takes (`pool.RESPONSE_SECONDS_MAX`)."""


@pytest.fixture
def planes(tmp_path: Path) -> Iterator[TwoPlanes]:
    made = TwoPlanes(tmp_path, CPU)
    made.add_nodes(NODE_COUNT)
    yield made
    made.stop()


class Chaos:
    """Random actions of users and random faults. The invariants are checked after every step."""

    def __init__(self, planes: TwoPlanes, network: BadNetwork, seed: int) -> None:
        self._gone: list[str] = []
        self._planes = planes
        self._network = network
        self._chance = random.Random(seed)
        self._count = 0
        self._nodes = [f"n{number}" for number in range(NODE_COUNT)]
        self._nodes_ever = NODE_COUNT
        self._homes: dict[str, str] = {}
        """Every pod ever seen bound, by uid, and where."""
        through = planes.directory / "through.kubeconfig"
        text = planes.own.admin_kubeconfig.read_text()
        through.write_text(text.replace(f":{planes.own.address[1]}", f":{network.port}"))
        self.schedulers = [planes.scheduler(own=through), planes.scheduler(own=through)]
        for each in self.schedulers:
            each.start()

    def step(self) -> None:
        steps = [self._create] * 6 + [self._delete] * 2 + [self._kill_leader, self._pause_leader]
        steps += [self._flap_node, self._network.cut, self._kill_plane, self._pause_plane]
        self._chance.choice(steps)()
        time.sleep(self._chance.random() * 0.2)
        self.check()

    def _create(self) -> None:
        for caller in (self._planes.small, self._planes.big):
            self._count += 1
            create(caller, f"p{self._count}", cpu=str(self._chance.randint(1, 2)))

    def _delete(self) -> None:
        caller = self._chance.choice([self._planes.small, self._planes.big])
        names = [each["metadata"]["name"] for each in caller.get(PODS).json["items"]]
        if names:
            caller.delete(f"{PODS}/{self._chance.choice(names)}?gracePeriodSeconds=0")

    def _leading(self) -> LocalScheduler | None:
        pid = self._planes.leader()
        return next((each for each in self.schedulers if each.pid == pid), None)

    def _kill_leader(self) -> None:
        if leader := self._leading():
            leader.kill()
            leader.start()

    def _pause_leader(self) -> None:
        """Pauses the leader for longer than its lease: when it continues, another leads."""
        if leader := self._leading():
            leader.send(signal.SIGSTOP)
            time.sleep(2.5)
            leader.send(signal.SIGCONT)

    def _flap_node(self) -> None:
        """Removes a node with everything assumed and noted on it, or adds one."""
        if len(self._nodes) < NODE_COUNT and self._chance.random() < 0.5:
            self._add_node()
        elif len(self._nodes) > 2:
            name = self._chance.choice(self._nodes)
            self._planes.home.system.delete(f"{NODES}/{name}")
            self._nodes.remove(name)
            self._gone.append(name)

    def _add_node(self) -> None:
        """Adds a new node, or one that was removed, with the same name."""
        if self._gone and self._chance.random() < 0.7:
            name = self._gone.pop()
        else:
            name = f"n{self._nodes_ever}"
            self._nodes_ever += 1
        self._planes.add_node(name)
        self._nodes.append(name)

    def _kill_plane(self) -> None:
        plane = self._chance.choice([self._planes.own, self._planes.home])
        plane.kill()
        time.sleep(self._chance.random())
        plane.start()

    def _pause_plane(self) -> None:
        plane = self._chance.choice([self._planes.own, self._planes.home])
        plane.send(signal.SIGSTOP)
        time.sleep(self._chance.random() * 3)
        plane.send(signal.SIGCONT)

    def check(self) -> None:
        assert all(used <= CPU for used in self._planes.placed().values())
        for caller in (self._planes.small, self._planes.big):
            for each in caller.get(PODS).json["items"]:
                if on := each["spec"].get("nodeName"):
                    assert self._homes.setdefault(each["metadata"]["uid"], on) == on

    def calm_down(self) -> None:
        while len(self._nodes) < NODE_COUNT:
            self._add_node()
        self._network.is_rough = False
        wait_until(self._is_settled, 150)
        self.check()

    def _is_settled(self) -> bool:
        """Whether no node has enough room for any pending pod."""
        placed = self._planes.placed()
        most = max(CPU - placed[name] for name in self._nodes)
        return all(
            requested > most
            for caller in (self._planes.small, self._planes.big)
            for requested in _waiting(caller)
        )


def _waiting(caller: Caller) -> list[int]:
    """CPUs requested by pods without a node."""
    return [
        int(each["spec"]["containers"][0]["resources"]["requests"]["cpu"])
        for each in caller.get(PODS).json["items"]
        if not each["spec"].get("nodeName")
    ]


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 8))])
def test_whatever_happens_nothing_is_lost_or_given_twice(planes: TwoPlanes, seed: int) -> None:
    with BadNetwork(planes.own.address, seed) as network:
        network.is_rough = True
        chaos = Chaos(planes, network, seed)
        try:
            for _ in range(STEPS):
                chaos.step()
            chaos.calm_down()
        finally:
            for each in chaos.schedulers:
                each.stop()


def test_another_takes_over_at_once_what_the_killed_one_left(planes: TwoPlanes) -> None:
    first, second = planes.scheduler(), planes.scheduler()
    with first:
        second.start()
        try:
            for number in range(10):
                create(planes.small, f"s{number}", cpu="1")
                create(planes.big, f"b{number}", cpu="1")
            first.kill()
            second.wait()
            wait_until(lambda: len(bound(planes.small)) + len(bound(planes.big)) == 20)
            assert all(used <= CPU for used in planes.placed().values())
        finally:
            second.stop()


def test_a_paused_leader_binds_nothing_after_it_wakes(planes: TwoPlanes) -> None:
    first, second = planes.scheduler(), planes.scheduler()
    with first:
        second.start()
        try:
            create(planes.big, "before", cpu="1")
            wait_until(lambda: bound(planes.big))
            first.send(signal.SIGSTOP)
            second.wait()
            for number in range(CPU * NODE_COUNT - 1):
                create((planes.small, planes.big)[number % 2], f"p{number}", cpu="1")
            # All that there is.
            wait_until(lambda: sum(planes.placed().values()) == CPU * NODE_COUNT)
            first.send(signal.SIGCONT)
            wait_until(lambda: "lost leadership" in first.log)
            create(planes.big, "after", cpu="1")
            wait_until(lambda: planes.big.get(f"{PODS}/after").json["status"].get("conditions"))
            assert planes.placed() == {f"n{number}": CPU for number in range(NODE_COUNT)}
        finally:
            second.stop()


@pytest.mark.parametrize("seconds", [4, pytest.param(35, marks=pytest.mark.slow)])
def test_a_plane_that_answers_late_holds_up_nobody_else(planes: TwoPlanes, seconds: int) -> None:
    with planes.scheduler():
        create(planes.big, "first", cpu="1")
        wait_until(lambda: bound(planes.big))
        for number in range(8):
            create(planes.big, f"b{number}", cpu="1")
        planes.own.send(signal.SIGSTOP)
        ends = time.monotonic() + seconds
        made = 0
        while time.monotonic() < ends:
            create(planes.small, f"s{made}", cpu="1")
            wait_until(lambda: f"s{made}" in bound(planes.small), HELD_UP_SECONDS)  # noqa: B023 - called at once
            made += 1
            if made == 8:
                for each in range(8):
                    planes.small.delete(f"{PODS}/s{each}?gracePeriodSeconds=0")
                made = 0
                time.sleep(0.5)
        planes.own.send(signal.SIGCONT)
        wait_until(lambda: len(bound(planes.big)) == 9, 100)
        assert all(used <= CPU for used in planes.placed().values())

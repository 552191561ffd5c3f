"""The ledger's promise: whatever planes do, no node is given out twice, no pod is lost or bound twice."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from random import Random

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from alcove.api.ids import SYSTEM, TenantId
from alcove.api.objects import Object
from alcove.client.keys import HOME, PlaneId
from alcove.scheduler.core import Scheduler
from alcove.scheduler.decisions import BindPod, ScheduledPodRef
from alcove.scheduler.events import ObjectKind, SchedulerEvent
from alcove.testing.scheduling import node, pod

NODES = {"n1": 4, "n2": 3}
PLANES = {
    HOME: [TenantId("acme"), TenantId("other")],
    PlaneId("own-1"): [TenantId("big")],
    PlaneId("own-2"): [TenantId("far")],
}


class Plane:
    """An API server as the scheduler meets it: what is so, events that it has not yet sent, what it was asked."""

    def __init__(self, name: PlaneId) -> None:
        self.name = name
        self.pods: dict[str, tuple[TenantId, Object]] = {}
        self.unsent: list[SchedulerEvent] = []
        self.asked: list[BindPod] = []
        self.late: list[BindPod] = []
        """Sent by schedulers that are gone, and carried out if it comes before the fence of the next one."""
        self.bindings: dict[str, str] = {}
        """Every pod ever bound, and where."""

    def emit(self, uid: str, gone: bool = False) -> None:
        tenant, obj = self.pods[uid]
        copy = {**obj, "spec": dict(obj["spec"])}
        self.unsent.append(SchedulerEvent(self.name, tenant, ObjectKind.POD, copy, gone))

    def bind(self, bind: BindPod) -> str:
        """Carry out a binding: "bound", "taken" by somebody before, or "gone"."""
        found = self.pods.get(bind.pod.uid)
        if found is None:
            return "gone"
        if found[1]["spec"].get("nodeName"):
            return "taken"
        assert bind.pod.uid not in self.bindings
        self.bindings[bind.pod.uid] = found[1]["spec"]["nodeName"] = bind.node
        self.emit(bind.pod.uid)
        return "bound"


class Cluster:
    def __init__(self, random: Random) -> None:
        self.random = random
        self.now = 0.0
        self.planes = {name: Plane(name) for name in PLANES}
        self.nodes = dict(NODES)
        self.notes: dict[str, dict[PlaneId, dict[str, int]]] = {name: {} for name in NODES}
        self.joined: set[PlaneId] = set()
        self.count = 0
        self.core = self.start()

    def start(self) -> Scheduler:
        """A scheduler that knows what it observes of the home plane, and nothing else."""
        core = Scheduler(lambda: self.now, flights_max=self.random.choice([2, 100]))
        for plane_id, tenants in PLANES.items():
            if plane_id != HOME:
                core.add_plane(plane_id, tenants[0])
        for name in self.nodes:
            core.observe(SchedulerEvent(HOME, SYSTEM, ObjectKind.NODE, node(name, cpu=str(NODES[name]))))
        for name in self.notes:
            core.observe(self.noted(name))
        self.joined.clear()
        self.join(core, self.planes[HOME])
        return core

    def join(self, core: Scheduler, plane: Plane) -> None:
        """The plane answers: it is fenced, listed, and known from then on."""
        self.joined.add(plane.name)
        plane.late.clear()
        plane.unsent.clear()
        for uid in plane.pods:
            plane.emit(uid)
        self.deliver(core, plane, len(plane.unsent))
        core.know_plane(plane.name)

    def noted(self, name: str) -> SchedulerEvent:
        data = {plane: msgspec.json.encode(held).decode() for plane, held in self.notes[name].items()}
        return SchedulerEvent(
            HOME, SYSTEM, ObjectKind.NOTE, {"metadata": {"name": name}, "data": data}, not data
        )

    def note(self, plane: PlaneId, name: str) -> None:
        """As `escrow` does it, without running ahead."""
        held = self.notes[name].setdefault(plane, {})
        for resource, amount in self.core.cache.used_by(plane, name).items():
            held[resource] = max(held.get(resource, 0), amount)
        self.core.observe(self.noted(name))

    def deliver(self, core: Scheduler, plane: Plane, count: int) -> None:
        if plane.name not in self.joined:
            return
        for event in plane.unsent[:count]:
            core.observe(event)
        del plane.unsent[:count]

    def check(self) -> None:
        """What is really on each node fits it."""
        used: dict[str, int] = defaultdict(int)
        for plane in self.planes.values():
            for _, obj in plane.pods.values():
                if on := obj["spec"].get("nodeName"):
                    used[on] += int(obj["spec"]["containers"][0]["resources"]["requests"]["cpu"])
        assert all(used[name] <= cpu for name, cpu in NODES.items())

    # What can happen.

    def create(self) -> None:
        plane = self.random.choice(list(self.planes.values()))
        tenant = self.random.choice(PLANES[plane.name])
        self.count += 1
        obj = pod(f"p{self.count}", cpu=str(self.random.randint(1, 3)))
        plane.pods[obj["metadata"]["uid"]] = (tenant, obj)
        plane.emit(obj["metadata"]["uid"])

    def delete(self) -> None:
        plane = self.random.choice(list(self.planes.values()))
        if plane.pods:
            uid = self.random.choice(list(plane.pods))
            plane.emit(uid, gone=True)
            del plane.pods[uid]

    def watch(self) -> None:
        plane = self.random.choice(list(self.planes.values()))
        self.deliver(self.core, plane, self.random.randint(1, 4))

    def decide(self) -> None:
        decision = self.core.schedule_next()
        if isinstance(decision, BindPod):
            if decision.pod.plane != HOME:
                self.note(decision.pod.plane, decision.node)
            self.planes[decision.pod.plane].asked.append(decision)

    def carry_out_late(self) -> None:
        plane = self.random.choice(list(self.planes.values()))
        if plane.late:
            plane.bind(plane.late.pop(self.random.randrange(len(plane.late))))

    def answer(self) -> None:
        """A request is carried out, or not, and the answer arrives, or not."""
        plane = self.random.choice(list(self.planes.values()))
        if not plane.asked:
            return
        bind = plane.asked.pop(self.random.randrange(len(plane.asked)))
        outcome = self.random.choice(["answered", "answered", "answer lost", "request lost", "late"])
        if outcome == "late":  # The scheduler gives up; the server carries it out some time later.
            self.core.unanswered(bind.pod)
            plane.asked.append(bind)
        elif outcome == "request lost":
            self.core.unanswered(bind.pod)
        else:
            result = plane.bind(bind)
            if outcome == "answer lost":
                self.core.unanswered(bind.pod)
            else:
                self.report(plane, bind.pod, result)

    def report(self, plane: Plane, ref: ScheduledPodRef, result: str) -> None:
        if result == "bound":
            self.core.bound(ref)
        else:
            found = plane.pods.get(ref.uid)
            self.core.refused(ref, None if found is None else {**found[1], "spec": dict(found[1]["spec"])})

    def restart_plane(self) -> None:
        """The watch breaks; events that were not sent are lost, but a list has the current state."""
        plane = self.planes[self.random.choice(sorted(self.joined))]
        plane.unsent.clear()
        for tenant in PLANES[plane.name]:
            for known in list(self.core.tracker.pods.get(tenant, {}).values()):
                if known.uid not in plane.pods:
                    gone = {"metadata": {"uid": known.uid, "name": known.name}, "spec": {}}
                    self.core.observe(SchedulerEvent(plane.name, tenant, ObjectKind.POD, gone, True))
        for uid in plane.pods:
            plane.emit(uid)

    def flap_node(self) -> None:
        name = self.random.choice(list(NODES))
        is_there = self.nodes.pop(name, None) is not None
        if not is_there:
            self.nodes[name] = NODES[name]
        self.core.observe(
            SchedulerEvent(HOME, SYSTEM, ObjectKind.NODE, node(name, cpu=str(NODES[name])), is_there)
        )

    def take_over(self) -> None:
        """Another scheduler takes over. The home plane carries out nothing of the one before any more;
        the others may, until they are fenced."""
        for plane in self.planes.values():
            for bind in plane.asked:
                if self.random.random() < 0.3:
                    plane.bind(bind)
                elif plane.name != HOME:
                    plane.late.append(bind)
            plane.asked.clear()
        self.core = self.start()

    def join_one(self) -> None:
        away = sorted(set(self.planes) - self.joined)
        if away:
            self.join(self.core, self.planes[self.random.choice(away)])

    def take_back(self) -> None:
        """Notes of what is known to be used by nobody."""
        for name, notes in self.notes.items():
            for plane in set(notes) & self.joined:
                notes[plane] = self.core.cache.used_by(plane, name)
                if not notes[plane]:
                    del notes[plane]
            self.core.observe(self.noted(name))

    def pass_time(self) -> None:
        self.now += self.random.choice([0.5, 5, 100])

    def step(self) -> None:
        often: list[Callable[[], None]] = [self.create, self.watch, self.watch, self.decide, self.decide]
        often += [self.answer, self.answer, self.delete, self.carry_out_late, self.join_one]
        seldom = [
            self.take_back,
            self.restart_plane,
            self.flap_node,
            self.take_over,
            self.pass_time,
        ]
        self.random.choice(often * 2 + seldom)()
        self.check()

    def calm_down(self) -> None:
        """Everything works again and goes on until nothing happens any more."""
        for name in NODES:
            self.nodes[name] = NODES[name]
            self.core.observe(SchedulerEvent(HOME, SYSTEM, ObjectKind.NODE, node(name, cpu=str(NODES[name]))))
        while len(self.joined) < len(self.planes):
            self.join_one()
        for _ in range(30):
            self.now += 31
            for plane in self.planes.values():
                self.deliver(self.core, plane, len(plane.unsent))
            while (decision := self.core.schedule_next()) is not None:
                if isinstance(decision, BindPod):
                    self.planes[decision.pod.plane].asked.append(decision)
            for plane in self.planes.values():
                while plane.asked:
                    bind = plane.asked.pop()
                    self.report(plane, bind.pod, plane.bind(bind))
                self.deliver(self.core, plane, len(plane.unsent))
            self.check()

    def check_nobody_forgotten(self) -> None:
        left = {
            name: cpu
            - sum(
                int(obj["spec"]["containers"][0]["resources"]["requests"]["cpu"])
                for plane in self.planes.values()
                for _, obj in plane.pods.values()
                if obj["spec"].get("nodeName") == name
            )
            for name, cpu in NODES.items()
        }
        for plane in self.planes.values():
            for _, obj in plane.pods.values():
                asked = int(obj["spec"]["containers"][0]["resources"]["requests"]["cpu"])
                assert obj["spec"].get("nodeName") or asked > max(left.values()), (obj["metadata"], left)
        assert not self.core.ledger.flights


@settings(max_examples=3 * settings().max_examples // 2, deadline=None)
@given(st.randoms(use_true_random=False), st.integers(20, 150))
def test_no_node_is_given_out_twice_and_no_pod_is_lost(random: Random, steps: int) -> None:
    cluster = Cluster(random)
    for _ in range(steps):
        cluster.step()
    cluster.calm_down()
    cluster.check_nobody_forgotten()


def test_a_long_bad_day() -> None:
    cluster = Cluster(Random(20261115))
    for _ in range(4000):
        cluster.step()
    cluster.calm_down()
    cluster.check_nobody_forgotten()
    assert sum(len(plane.bindings) for plane in cluster.planes.values()) > 30, "it was no idle day"

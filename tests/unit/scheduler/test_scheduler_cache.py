"""The law of everything incremental: after any changes, the world is as if made anew from what is now so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from alcove.api.ids import TenantId
from alcove.api.objects import Object
from alcove.scheduler.nodes import HOSTNAME, ZONE, read_node
from alcove.scheduler.pods import SchedulerPod
from alcove.testing.scheduling import Scene, far, near, node, pod, spread, term, wishes

NODES = [f"n{number}" for number in range(5)]
TENANTS = [TenantId("acme"), TenantId("other")]
APPS = ["web", "db"]

# What pods ask of each other: every kind of rule, over nodes and over zones.
ASKING: list[dict[str, Any]] = [
    {},
    {"affinity": far(term({"app": "web"}))},
    {"affinity": near(term({"app": "db"}, ZONE))},
    {"affinity": far(term({"app": "web"}, ZONE, namespaceSelector={"matchLabels": {"team": "x"}}))},
    {"affinity": wishes(5, term({"app": "web"}, ZONE))},
    {"topologySpreadConstraints": [spread({"app": "web"}, ZONE)]},
    {
        "topologySpreadConstraints": [
            spread({"app": "web"}, HOSTNAME, hard=False),
            spread({"app": "db"}, ZONE),
        ]
    },
    {"containers": [{"name": "c", "ports": [{"hostPort": 80}]}]},
    {"nodeSelector": {ZONE: "z1"}},
    {"tolerations": [{"operator": "Exists"}]},
]

_nodes = st.builds(
    node,
    st.sampled_from(NODES),
    st.sampled_from([{ZONE: "z1"}, {ZONE: "z2"}, {}]),
    cpu=st.sampled_from(["1", "4"]),
    taints=st.sampled_from([[], ["a=b:NoSchedule"], ["a=b:PreferNoSchedule"]]),
    unschedulable=st.booleans(),
    images=st.sampled_from([{}, {"pause:3": 900 << 20}]),
    gpu=st.sampled_from(["0", "2"]),
)


@st.composite
def _pods(draw: st.DrawFn) -> tuple[TenantId, Object]:
    asked = draw(st.sampled_from(ASKING))
    made = pod(
        "p",
        {"app": draw(st.sampled_from(APPS))},
        namespace=draw(st.sampled_from(["default", "else"])),
        cpu=draw(st.sampled_from(["", "500m", "2"])),
        owner=draw(st.sampled_from(["", "rs-1"])),
        **asked,
    )
    return draw(st.sampled_from(TENANTS)), made


_steps = st.one_of(
    st.tuples(st.just("node"), _nodes),
    st.tuples(st.just("gone"), st.sampled_from(NODES)),
    st.tuples(st.just("place"), st.tuples(_pods(), st.sampled_from(NODES))),
    st.tuples(st.just("lift"), st.integers(0, 9)),
    st.tuples(st.just("leave"), st.integers(0, 9)),
    st.tuples(st.just("nominate"), st.tuples(_pods(), st.sampled_from(NODES))),
    st.tuples(st.just("denominate"), st.integers(0, 9)),
    st.tuples(
        st.just("namespace"), st.tuples(st.sampled_from(["default", "else"]), st.sampled_from(["x", "y"]))
    ),
)


class _Truth:
    """What is so, kept plainly, and a world that follows step by step."""

    def __init__(self) -> None:
        self.scene = Scene()
        self.nodes: dict[str, Object] = {}
        self.namespaces: dict[str, dict[str, str]] = {}
        self.placed: list[tuple[TenantId, Object, str, SchedulerPod]] = []
        self.nominated: list[tuple[TenantId, Object, str, SchedulerPod]] = []
        self.leaving: set[str] = set()
        self.probes: list[tuple[TenantId, Object]] = []

    def apply(self, kind: str, value: Any) -> None:
        steps: dict[str, Callable[[Any], None]] = {
            "node": self.put_node,
            "gone": self.remove_node,
            "place": self.place,
            "lift": self.lift,
            "leave": self.leave,
            "nominate": self.nominate,
            "denominate": self.denominate,
            "namespace": self.set_namespace,
        }
        steps[kind](value)

    def put_node(self, made: Object) -> None:
        self.nodes[made["metadata"]["name"]] = made
        self.scene.cache.put_node(read_node(made))

    def remove_node(self, name: str) -> None:
        self.nodes.pop(name, None)
        self.scene.cache.remove_node(name)

    def place(self, value: Any) -> None:
        (tenant, obj), name = value
        read = self.scene.pod(obj, tenant)
        self.scene.cache.place(read, name)
        self.placed.append((tenant, obj, name, read))

    def lift(self, index: int) -> None:
        if index < len(self.placed):
            read = self.placed.pop(index)[3]
            self.leaving.discard(read.uid)
            self.scene.cache.lift(read)
            self.scene.tracker.release(read)

    def leave(self, index: int) -> None:
        if index < len(self.placed):
            read = self.placed[index][3]
            self.leaving.add(read.uid)
            self.scene.cache.mark_leaving(read)

    def nominate(self, value: Any) -> None:
        (tenant, obj), name = value
        read = self.scene.pod(obj, tenant)
        self.scene.cache.nominate(read, name)
        self.nominated.append((tenant, obj, name, read))

    def denominate(self, index: int) -> None:
        if index < len(self.nominated):
            read = self.nominated.pop(index)[3]
            self.scene.cache.denominate(read)
            self.scene.tracker.release(read)

    def set_namespace(self, value: tuple[str, str]) -> None:
        name, team = value
        self.namespaces[name] = {"team": team}
        for tenant in TENANTS:
            self.scene.cache.affinity_index(tenant).set_namespace(name, {"team": team})

    def made_anew(self) -> Scene:
        scene = Scene(*self.nodes.values())
        for name, labels in self.namespaces.items():
            for tenant in TENANTS:
                scene.cache.affinity_index(tenant).set_namespace(name, labels)
        for tenant, obj, name, read in self.placed:
            again = scene.pod(obj, tenant)
            again.is_leaving = read.uid in self.leaving
            scene.cache.place(again, name)
        for tenant, obj, name, _ in self.nominated:
            scene.cache.nominate(scene.pod(obj, tenant), name)
        return scene


def _ranks(scene: Scene, tenant: TenantId, obj: Object) -> dict[str, int]:
    ranked = scene.evaluator.rank(scene.pod(obj, tenant))
    return {name: int(ranked[slot]) for name, slot in scene.cache.nodes.slots.items()}


def _taken(scene: Scene) -> dict[str, dict[str, int]]:
    nodes = scene.cache.nodes
    return {
        name: {
            resource: int(nodes.requested[row, slot])
            for resource, row in nodes.rows.items()
            if nodes.requested[row, slot]
        }
        for name, slot in nodes.slots.items()
    }


@given(st.lists(_steps, min_size=8, max_size=30), st.lists(_pods(), min_size=4, max_size=8))
def test_world_changed_step_by_step_is_as_made_anew(
    steps: list[tuple[str, Any]], probes: list[tuple[TenantId, Object]]
) -> None:
    truth = _Truth()
    for kind, value in steps:
        truth.apply(kind, value)
        for tenant, obj in probes:
            _ranks(truth.scene, tenant, obj)  # Cached results have to be updated from now on.
    anew = truth.made_anew()
    assert _taken(truth.scene) == _taken(anew)
    for tenant, obj in probes:
        assert _ranks(truth.scene, tenant, obj) == _ranks(anew, tenant, obj)
        assert truth.scene.why(obj, tenant) == anew.why(obj, tenant)


def test_pods_on_a_node_that_comes_back_are_counted_again() -> None:
    scene = Scene(node("n", cpu="2"))
    scene.place(pod("x", cpu="2", on="n"))
    scene.cache.remove_node("n")
    scene.cache.put_node(read_node(node("m", cpu="2")))
    assert scene.feasible(pod("p", cpu="1")) == {"m"}
    scene.cache.put_node(read_node(node("n", cpu="2")))
    assert scene.feasible(pod("p", cpu="1")) == {"m"}


def test_a_resource_that_becomes_known_is_counted_for_pods_already_there() -> None:
    scene = Scene(node("n"))
    asking: Any = {"containers": [{"name": "c", "resources": {"requests": {"example.com/gpu": "1"}}}]}
    scene.place(pod("x", on="n", **asking))
    scene.cache.put_node(read_node(node("n", gpu="1")))
    assert scene.feasible(pod("p", **asking)) == set()


def test_nothing_is_kept_of_pods_that_are_gone() -> None:
    scene = Scene(node("n"))
    for number in range(3):
        read = scene.place(
            pod(f"p{number}", {"app": str(number)}, on="n", affinity=far(term({"app": str(number)})))
        )
        scene.cache.lift(read)
        scene.tracker.release(read)
    index = scene.cache.affinity_index(read.tenant)
    assert not scene.tracker._shapes
    assert not index._groups and not index._selections and not index._rules
    assert not scene.cache.on_node

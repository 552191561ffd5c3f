"""What each filter decides: tables of pods and nodes, as kube-scheduler 1.36 documents them."""

from __future__ import annotations

from typing import Any

import pytest

from alcove.api.objects import Object
from alcove.scheduler.nodes import ZONE
from alcove.testing.scheduling import OTHER, Scene, asking, far, near, node, pod, spread, term

ZONES = (node("a1", {ZONE: "a"}), node("a2", {ZONE: "a"}), node("b1", {ZONE: "b"}))


def _required(*expressions: Object, fields: tuple[Object, ...] = ()) -> Object:
    terms = [{"matchExpressions": list(expressions), "matchFields": list(fields)}]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}


def _expression(key: str, operator: str, *values: str) -> Object:
    return {"key": key, "operator": operator, "values": list(values)}


LABELED = (
    node("small", {"disk": "hdd", "cores": "4"}),
    node("large", {"disk": "ssd", "cores": "16"}),
    node("plain", {"cores": "many"}),
)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"nodeSelector": {"disk": "ssd"}}, {"large"}),
        ({"nodeSelector": {"disk": "ssd", "cores": "4"}}, set()),
        ({"nodeSelector": {}}, {"small", "large", "plain"}),
        ({"affinity": _required(_expression("disk", "In", "ssd", "nvme"))}, {"large"}),
        ({"affinity": _required(_expression("disk", "In", "ssd", "hdd"))}, {"small", "large"}),
        ({"affinity": _required(_expression("disk", "NotIn", "ssd"))}, {"small", "plain"}),
        ({"affinity": _required(_expression("disk", "Exists"))}, {"small", "large"}),
        ({"affinity": _required(_expression("disk", "DoesNotExist"))}, {"plain"}),
        ({"affinity": _required(_expression("gpu", "DoesNotExist"))}, {"small", "large", "plain"}),
        ({"affinity": _required(_expression("gpu", "NotIn", "a100"))}, {"small", "large", "plain"}),
        ({"affinity": _required(_expression("gpu", "In", "a100"))}, set()),
        ({"affinity": _required(_expression("cores", "Gt", "4"))}, {"large"}),
        ({"affinity": _required(_expression("cores", "Lt", "5"))}, {"small"}),
        ({"affinity": _required(fields=(_expression("metadata.name", "In", "plain"),))}, {"plain"}),
        (
            {"affinity": _required(fields=(_expression("metadata.name", "NotIn", "plain"),))},
            {"small", "large"},
        ),
        ({"affinity": _required()}, set()),
        (
            {"nodeSelector": {"disk": "ssd"}, "affinity": _required(_expression("cores", "Gt", "100"))},
            set(),
        ),
    ],
)
def test_node_selector_and_affinity(spec: dict[str, Any], expected: set[str]) -> None:
    assert Scene(*LABELED).feasible(pod("p", **spec)) == expected


def test_terms_of_node_affinity_are_alternatives() -> None:
    one, other = _required(_expression("disk", "In", "ssd")), _required(_expression("cores", "In", "many"))
    key = "requiredDuringSchedulingIgnoredDuringExecution"
    terms = [each["nodeAffinity"][key]["nodeSelectorTerms"][0] for each in (one, other)]
    affinity = {"nodeAffinity": {key: {"nodeSelectorTerms": terms}}}
    assert Scene(*LABELED).feasible(pod("p", affinity=affinity)) == {"large", "plain"}


@pytest.mark.parametrize(
    ("toleration", "expected"),
    [
        (None, {"clean", "soft"}),
        (
            {"key": "team", "operator": "Equal", "value": "red", "effect": "NoSchedule"},
            {"clean", "soft", "red"},
        ),
        ({"key": "team", "value": "red"}, {"clean", "soft", "red"}),
        ({"key": "team", "operator": "Exists"}, {"clean", "soft", "red", "evicting"}),
        ({"operator": "Exists"}, {"clean", "soft", "red", "evicting"}),
        ({"operator": "Exists", "effect": "NoExecute"}, {"clean", "soft", "evicting"}),
        ({"key": "team", "operator": "Equal", "value": "blue"}, {"clean", "soft", "evicting"}),
        ({"key": "team", "operator": "Gt", "value": "1"}, {"clean", "soft"}),
    ],
)
def test_taints_must_be_tolerated(toleration: Object | None, expected: set[str]) -> None:
    scene = Scene(
        node("clean"),
        node("soft", taints=["team=red:PreferNoSchedule"]),
        node("red", taints=["team=red:NoSchedule"]),
        node("evicting", taints=["team=blue:NoExecute"]),
    )
    assert scene.feasible(pod("p", tolerations=[toleration] if toleration else [])) == expected


def test_cordoned_nodes_take_only_pods_that_tolerate_it() -> None:
    scene = Scene(node("open"), node("cordoned", unschedulable=True))
    tolerating = {"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"}
    assert scene.feasible(pod("p")) == {"open"}
    assert scene.feasible(pod("p", tolerations=[tolerating])) == {"open", "cordoned"}
    assert scene.feasible(pod("p", tolerations=[{"operator": "Exists"}])) == {"open", "cordoned"}


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"cpu": "1"}, {"roomy"}),
        ({"cpu": "500m"}, {"roomy", "busy"}),
        ({"cpu": "501m"}, {"roomy"}),
        ({"memory": "30Gi"}, {"roomy"}),
        ({"cpu": "0", "memory": "0"}, {"roomy", "busy"}),
        ({"gpu": "2"}, {"roomy"}),
        ({"gpu": "3"}, set()),
        ({"fpga": "1"}, set()),
        ({"cpu": "9E"}, set()),
    ],
)
def test_resources_must_be_left(asked: dict[str, str], expected: set[str]) -> None:
    scene = Scene(node("roomy", gpu="2"), node("busy"), node("full", pods="1"))
    scene.place(pod("x", cpu="3500m", memory="10Gi", on="busy"))
    scene.place(pod("y", on="full"))
    assert scene.feasible(pod("p", containers=asking(**asked))) == expected


def test_init_containers_sidecars_and_overhead_count() -> None:
    scene = Scene(node("n", cpu="4"))

    def container(name: str, cpu: str, **more: str) -> Object:
        return {"name": name, "resources": {"requests": {"cpu": cpu}}, **more}

    def fits(**spec: Any) -> bool:
        return bool(scene.feasible(pod("p", **spec)))

    main = [container("a", "1"), container("b", "1")]
    assert fits(containers=main, initContainers=[container("i", "4")])
    assert not fits(containers=main, initContainers=[container("i", "4100m")])
    assert not fits(containers=main, initContainers=[container("s", "2100m", restartPolicy="Always")])
    sidecar_first = [container("s", "1", restartPolicy="Always"), container("i", "3100m")]
    assert not fits(containers=main, initContainers=sidecar_first)
    assert fits(containers=main, initContainers=list(reversed(sidecar_first)))
    assert fits(containers=main, overhead={"cpu": "2"})
    assert not fits(containers=main, overhead={"cpu": "2001m"})
    assert not fits(containers=main, resources={"requests": {"cpu": "5"}})


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({"hostPort": 80}, {"free"}),
        ({"hostPort": 81}, {"free", "all", "one"}),
        ({"hostPort": 80, "protocol": "UDP"}, {"free", "all", "one"}),
        ({"hostPort": 80, "hostIP": "10.0.0.1"}, {"free"}),
        ({"hostPort": 80, "hostIP": "10.0.0.2"}, {"free", "one"}),
        ({"containerPort": 80}, {"free", "all", "one"}),
    ],
)
def test_host_ports_must_be_free(wanted: Object, expected: set[str]) -> None:
    def with_port(port: Object) -> list[Object]:
        return [{"name": "main", "ports": [port]}]

    scene = Scene(node("free"), node("all"), node("one"))
    scene.place(pod("x", on="all", containers=with_port({"hostPort": 80})))
    scene.place(pod("y", on="one", containers=with_port({"hostPort": 80, "hostIP": "10.0.0.1"})), OTHER)
    assert scene.feasible(pod("p", containers=with_port(wanted))) == expected


def test_runtime_class_needs_a_node_that_proved_its_handler() -> None:
    scene = Scene(node("plain"), node("strong", handlers=["runsc", "runc"]))
    scene.cache.handlers["acme"] = {"gvisor": "runsc"}  # type: ignore[index]
    assert scene.feasible(pod("p", runtimeClassName="gvisor")) == {"strong"}
    missing = 'runtimeclass.node.k8s.io "kata" not found'
    assert scene.why(pod("p", runtimeClassName="kata")) == f"0/2 nodes are available: {missing}."


WEB = {"app": "web"}


@pytest.mark.parametrize(
    ("affinity", "expected"),
    [
        (near(term(WEB)), {"a1"}),
        (near(term(WEB, ZONE)), {"a1", "a2"}),
        (near(term(WEB, ZONE), term({"tier": "front"}, "kubernetes.io/hostname")), {"a1"}),
        (near(term(WEB, ZONE), term({"tier": "back"}, ZONE)), set()),
        (near(term(WEB, "rack")), set()),
        (near(term({"app": "none"}, ZONE)), set()),
        (far(term(WEB)), {"a2", "b1"}),
        (far(term(WEB, ZONE)), {"b1"}),
        (far(term(WEB, "rack")), {"a1", "a2", "b1"}),
        (far(term(WEB, ZONE, namespaces=["else"])), {"a1", "a2"}),
        (far(term(WEB, ZONE, namespaceSelector={})), set()),
        (far(term(WEB, ZONE, namespaceSelector={"matchLabels": {"team": "x"}})), {"a1", "a2"}),
        (far(term(WEB, ZONE, namespaceSelector={"matchLabels": {"team": "y"}})), {"a1", "a2", "b1"}),
    ],
)
def test_pods_near_and_far(affinity: Object, expected: set[str]) -> None:
    scene = Scene(*ZONES)
    scene.cache.affinity_index(scene.pod(pod("_")).tenant).set_namespace("else", {"team": "x"})
    scene.place(pod("web", {**WEB, "tier": "front"}, on="a1"))
    scene.place(pod("web", WEB, namespace="else", on="b1"))
    assert scene.feasible(pod("p", {"app": "db"}, affinity=affinity)) == expected


def test_first_of_pods_that_want_their_like_near_goes_anywhere_with_the_label() -> None:
    scene = Scene(*ZONES, node("unlabeled"))
    wanting = pod("p", WEB, affinity=near(term(WEB, ZONE)))
    assert scene.feasible(wanting) == {"a1", "a2", "b1"}
    scene.place(pod("first", WEB, on="b1"))
    assert scene.feasible(wanting) == {"b1"}


def test_placed_pods_keep_away_those_they_must_be_far_from() -> None:
    scene = Scene(*ZONES)
    loner = scene.place(pod("loner", {"app": "db"}, on="a1", affinity=far(term(WEB, ZONE))))
    assert scene.feasible(pod("p", WEB)) == {"b1"}
    assert scene.feasible(pod("p", {"app": "other"})) == {"a1", "a2", "b1"}
    scene.cache.lift(loner)
    assert scene.feasible(pod("p", WEB)) == {"a1", "a2", "b1"}


def test_no_affinity_reaches_into_another_tenant() -> None:
    scene = Scene(*ZONES)
    scene.place(pod("loner", WEB, on="a1", affinity=far(term(WEB, ZONE))), OTHER)
    assert scene.feasible(pod("p", WEB, affinity=far(term(WEB, ZONE)))) == {"a1", "a2", "b1"}
    assert scene.feasible(pod("q", {"app": "x"}, affinity=near(term(WEB, ZONE)))) == set()


@pytest.mark.parametrize(
    ("constraint", "expected"),
    [
        (spread(WEB, ZONE), {"b1"}),
        (spread(WEB, ZONE, 2), {"b1"}),
        (spread(WEB, ZONE, 3), {"a1", "a2", "b1"}),
        (spread(WEB, "kubernetes.io/hostname"), {"b1"}),
        (spread(WEB, "rack"), set()),
        (spread(WEB, ZONE, 1, minDomains=3), {"b1"}),
        (spread(WEB, ZONE, 3, minDomains=3), {"a1", "a2", "b1"}),
        (spread({}, ZONE), {"a1", "a2", "b1"}),
        ({**spread(WEB, ZONE), "labelSelector": None}, {"a1", "a2", "b1"}),
        (spread(WEB, ZONE, hard=False), {"a1", "a2", "b1"}),
    ],
)
def test_spread_constraints(constraint: Object, expected: set[str]) -> None:
    scene = Scene(*ZONES)
    scene.place(pod("w1", WEB, on="a1"))
    scene.place(pod("w2", WEB, on="a2"))
    scene.place(pod("w3", WEB, namespace="else", on="b1"))
    scene.place(pod("w4", WEB, on="b1"), OTHER)
    assert scene.feasible(pod("p", WEB, topologySpreadConstraints=[constraint])) == expected


def test_spread_counts_pods_that_are_leaving_no_more() -> None:
    scene = Scene(*ZONES)
    going = scene.place(pod("w1", WEB, on="a1"))
    even = pod("p", WEB, topologySpreadConstraints=[spread(WEB, ZONE)])
    assert scene.feasible(even) == {"b1"}
    scene.cache.mark_leaving(going)
    assert scene.feasible(even) == {"a1", "a2", "b1"}


def test_spread_looks_only_at_nodes_the_pod_could_use() -> None:
    scene = Scene(
        node("a", {ZONE: "a", "ok": "y"}), node("b", {ZONE: "b"}), node("c", {ZONE: "c", "ok": "y"})
    )
    scene.place(pod("w1", WEB, on="a"))
    scene.place(pod("w2", WEB, on="c"))
    chosen: Any = {"nodeSelector": {"ok": "y"}}
    assert scene.feasible(pod("p", WEB, topologySpreadConstraints=[spread(WEB, ZONE)], **chosen)) == {
        "a",
        "c",
    }
    ignoring = spread(WEB, ZONE, nodeAffinityPolicy="Ignore")
    assert scene.feasible(pod("p", WEB, topologySpreadConstraints=[ignoring], **chosen)) == set()


def test_spread_takes_the_pods_own_values_of_match_label_keys() -> None:
    scene = Scene(*ZONES)
    scene.place(pod("old", {**WEB, "version": "1"}, on="a1"))
    constraint = spread(WEB, ZONE, matchLabelKeys=["version"])
    new = pod("p", {**WEB, "version": "2"}, topologySpreadConstraints=[constraint])
    assert scene.feasible(new) == {"a1", "a2", "b1"}


@pytest.mark.parametrize(
    ("policy", "toleration", "expected"),
    [
        ("Ignore", None, set()),
        ("Honor", None, {"a"}),
        ("Honor", {"operator": "Exists"}, {"b"}),
    ],
)
def test_spread_looks_at_tainted_nodes_unless_the_policy_says_otherwise(
    policy: str, toleration: Object | None, expected: set[str]
) -> None:
    scene = Scene(node("a", {ZONE: "a"}), node("b", {ZONE: "b"}, taints=["x=y:NoSchedule"]))
    scene.place(pod("w1", WEB, on="a"))
    constraint = spread(WEB, ZONE, nodeTaintsPolicy=policy)
    tolerations = [toleration] if toleration else []
    wanting = pod("p", WEB, topologySpreadConstraints=[constraint], tolerations=tolerations)
    assert scene.feasible(wanting) == expected


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({}, {"b1"}),
        ({"matchLabelKeys": ["version"]}, {"a1", "a2", "b1"}),
        ({"mismatchLabelKeys": ["version"]}, {"b1"}),
        ({"mismatchLabelKeys": ["tier"]}, {"b1"}),
    ],
)
def test_terms_take_the_pods_own_values_of_label_keys(keys: Object, expected: set[str]) -> None:
    scene = Scene(*ZONES)
    scene.place(pod("old", {**WEB, "version": "1"}, on="a1"))
    apart = far(term(WEB, ZONE, **keys))
    assert scene.feasible(pod("p", {**WEB, "version": "2"}, affinity=apart)) == expected


def test_terms_can_leave_out_pods_with_the_pods_own_value() -> None:
    scene = Scene(*ZONES)
    scene.place(pod("mine", {**WEB, "team": "red"}, on="a1"))
    scene.place(pod("theirs", {**WEB, "team": "blue"}, on="b1"))
    apart = far(term(WEB, ZONE, mismatchLabelKeys=["team"]))
    assert scene.feasible(pod("p", {**WEB, "team": "red"}, affinity=apart)) == {"a1", "a2"}


def test_several_spread_constraints_must_all_hold() -> None:
    scene = Scene(*ZONES)
    scene.place(pod("w1", WEB, on="a1"))
    scene.place(pod("w2", WEB, on="b1"))
    both = [spread(WEB, ZONE), spread(WEB, "kubernetes.io/hostname")]
    assert scene.feasible(pod("p", WEB, topologySpreadConstraints=both)) == {"a2"}


def test_disks_that_cannot_be_shared() -> None:
    scene = Scene(node("n"), node("m"))
    ebs = {"name": "v", "awsElasticBlockStore": {"volumeID": "vol-1"}}
    pd = {"name": "v", "gcePersistentDisk": {"pdName": "pd", "readOnly": True}}
    rbd = {"name": "v", "rbd": {"monitors": ["m1", "m2"], "pool": "p", "image": "i"}}
    scene.place(pod("x", on="n", volumes=[ebs, pd, rbd]))
    assert scene.feasible(pod("p", volumes=[ebs])) == {"m"}
    assert scene.feasible(pod("p", volumes=[pd])) == {"n", "m"}
    writing = {"name": "v", "gcePersistentDisk": {"pdName": "pd"}}
    assert scene.feasible(pod("p", volumes=[writing])) == {"m"}
    overlapping = {"name": "v", "rbd": {"monitors": ["m2"], "pool": "p", "image": "i"}}
    other_image = {"name": "v", "rbd": {"monitors": ["m2"], "pool": "p", "image": "j"}}
    assert scene.feasible(pod("p", volumes=[overlapping])) == {"m"}
    assert scene.feasible(pod("p", volumes=[other_image])) == {"n", "m"}

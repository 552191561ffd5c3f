"""What each score says: figures worked out by hand from kube-scheduler 1.36's formulas."""

from __future__ import annotations

from typing import Any

import pytest

from alcove.api.objects import Object
from alcove.scheduler.nodes import HOSTNAME, ZONE
from alcove.testing.scheduling import OTHER, Scene, asking, near, node, pod, spread, term, wishes

GIB = 1024**3
MIB = 1024**2


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        # (4000-1000)/4000 = 75 and (32-8)/32 = 75 on the empty node; 25 and 50 on the busy one.
        ({"cpu": "1", "memory": "8Gi"}, {"empty": 75, "busy": (25 + 50) // 2}),
        # Nothing asked counts as 100m and 200 MiB: 97 (97.5) and 99 (99.39).
        ({}, {"empty": (97 + 99) // 2, "busy": (47 + 74) // 2}),
    ],
)
def test_least_allocated(asked: dict[str, str], expected: dict[str, int]) -> None:
    scene = Scene(node("empty"), node("busy"))
    scene.place(pod("x", cpu="2", memory="8Gi", on="busy"))
    assert scene.scores(pod("p", containers=asking(**asked)), "NodeResourcesFit") == expected


def test_most_allocated_serves_the_packing_profile() -> None:
    scene = Scene(node("empty"), node("busy"), node("full"))
    scene.place(pod("x", cpu="2", memory="8Gi", on="busy"))
    scene.place(pod("y", cpu="4", on="full"))
    assert scene.chosen(pod("p", cpu="1")) == "empty"
    assert scene.chosen(pod("p", cpu="1", schedulerName="packing-scheduler")) == "busy"


def test_balanced_allocation_rewards_what_improves_the_balance() -> None:
    scene = Scene(node("even", memory="4Gi"), node("cpu-heavy", memory="4Gi"))
    scene.place(pod("x", cpu="2", memory="0", on="cpu-heavy"))
    # A pod of memory only: the even node goes from 100 to 75, the other from 75 to 100.
    asked = pod("p", memory="2Gi")
    assert scene.scores(asked, "NodeResourcesBalancedAllocation") == {
        "even": 50 + (50 + 75 - 100) // 2,
        "cpu-heavy": 50 + (50 + 100 - 75) // 2,
    }


def test_disliked_taints_count_against_a_node() -> None:
    scene = Scene(
        node("clean"),
        node("one", taints=["a=1:PreferNoSchedule"]),
        node("two", taints=["a=1:PreferNoSchedule", "b=1:PreferNoSchedule"]),
    )
    assert scene.scores(pod("p"), "TaintToleration") == {"clean": 100, "one": 50, "two": 0}
    tolerating = pod("p", tolerations=[{"key": "a", "operator": "Exists"}])
    assert scene.scores(tolerating, "TaintToleration") == {"clean": 100, "one": 100, "two": 0}


def _preferring(*weighted: tuple[int, str, str]) -> Object:
    terms = [
        {
            "weight": weight,
            "preference": {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]},
        }
        for weight, key, value in weighted
    ]
    return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}


def test_preferred_nodes_in_proportion_to_the_best_that_can_take_the_pod() -> None:
    scene = Scene(node("a", {"x": "1", "y": "1"}), node("b", {"x": "1"}), node("c"))
    wanted = _preferring((30, "x", "1"), (70, "y", "1"))
    assert scene.scores(pod("p", affinity=wanted), "NodeAffinity") == {"a": 100, "b": 30, "c": 0}
    scene.place(pod("full", cpu="4", on="a"))
    assert scene.scores(pod("p", cpu="1", affinity=wanted), "NodeAffinity") == {"b": 100, "c": 0}


def test_images_count_by_size_and_by_how_many_nodes_have_them() -> None:
    scene = Scene(
        node("big", images={"app:1": 500 * MIB}),
        node("small", images={"app:1": 40 * MIB}),
        node("none"),
        node("other", images={"else:1": 900 * MIB}),
    )
    # Two nodes of four have it: 250 MiB and 20 MiB count, from 23 MiB (0) to 1000 MiB (100).
    asked = pod("p", containers=[{"name": "c", "image": "app:1"}])
    expected = {"big": 100 * (250 - 23) // (1000 - 23), "small": 0, "none": 0, "other": 0}
    assert scene.scores(asked, "ImageLocality") == expected


def test_images_that_are_mounted_count_but_are_no_containers() -> None:
    """The most that counts grows with the containers, not with the volumes."""
    scene = Scene(node("has", images={"data:1": 400 * MIB}), node("not", images={"else:1": MIB}))
    mounted = [{"name": "v", "image": {"reference": "data:1"}}]
    asked = pod("p", containers=[{"name": "c", "image": "app:1"}], volumes=mounted)
    assert scene.scores(asked, "ImageLocality") == {"has": 100 * (200 - 23) // (1000 - 23), "not": 0}
    # Pods that mount different images are not each other's equals.
    other = pod(
        "q",
        containers=[{"name": "c", "image": "app:1"}],
        volumes=[{"name": "v", "image": {"reference": "x"}}],
    )
    assert scene.scores(other, "ImageLocality") == {"has": 0, "not": 0}


def test_images_of_several_containers_add_up() -> None:
    scene = Scene(
        node("both", images={"a:1": 300 * MIB, "b:1": 500 * MIB}), node("one", images={"a:1": 300 * MIB})
    )
    containers = [{"name": name, "image": f"{name}:1"} for name in ("a", "b")]
    # All nodes have the first, half of them the other: 300 + 250 of 2000 MiB; 300 of 2000.
    most = 2 * 1000 - 23
    expected = {"both": 100 * (300 + 250 - 23) // most, "one": 100 * (300 - 23) // most}
    assert scene.scores(pod("p", containers=containers), "ImageLocality") == expected
    initial = pod("p", containers=containers[:1], initContainers=containers[1:])
    assert scene.scores(initial, "ImageLocality") == expected


def test_an_image_without_tag_is_the_latest() -> None:
    scene = Scene(node("has", images={"app:latest": 900 * MIB}), node("not"))
    asked = pod("p", containers=[{"name": "c", "image": "app"}])
    assert scene.scores(asked, "ImageLocality")["has"] > 0


WEB = {"app": "web"}
ZONED = (node("a1", {ZONE: "a"}), node("a2", {ZONE: "a"}), node("b1", {ZONE: "b"}), node("nowhere"))


@pytest.mark.parametrize(
    ("affinity", "expected"),
    [
        (wishes(10, term(WEB, ZONE)), {"a1": 100, "a2": 100, "b1": 50, "nowhere": 0}),
        (wishes(10, term(WEB, HOSTNAME)), {"a1": 100, "a2": 100, "b1": 100, "nowhere": 0}),
        (wishes(10, term(WEB, ZONE), apart=True), {"a1": 0, "a2": 0, "b1": 50, "nowhere": 100}),
        (wishes(10, term({"app": "none"}, ZONE)), {"a1": 0, "a2": 0, "b1": 0, "nowhere": 0}),
    ],
)
def test_wishes_to_be_near_and_far(affinity: Object, expected: dict[str, int]) -> None:
    scene = Scene(*ZONED)
    for name, on in (("w1", "a1"), ("w2", "a2"), ("w3", "b1")):
        scene.place(pod(name, WEB, on=on))
    scene.place(pod("stranger", WEB, on="nowhere"), OTHER)
    assert scene.scores(pod("p", affinity=affinity), "InterPodAffinity") == expected


@pytest.mark.parametrize(
    ("theirs", "expected"),
    [
        (wishes(10, term(WEB, ZONE)), {"a1": 100, "a2": 100, "b1": 0, "nowhere": 0}),
        (wishes(10, term(WEB, ZONE), apart=True), {"a1": 0, "a2": 0, "b1": 100, "nowhere": 100}),
        (near(term(WEB, ZONE)), {"a1": 100, "a2": 100, "b1": 0, "nowhere": 0}),
    ],
)
def test_wishes_of_placed_pods_count_too(theirs: Object, expected: dict[str, int]) -> None:
    scene = Scene(*ZONED)
    scene.place(pod("friend", {"app": "db"}, on="a1", affinity=theirs))
    assert scene.scores(pod("p", WEB), "InterPodAffinity") == expected


def test_spread_wish_prefers_the_emptier_zone() -> None:
    scene = Scene(*ZONED[:3])
    for number, on in enumerate(("a1", "a1", "a2", "b1")):
        scene.place(pod(f"w{number}", WEB, on=on))
    asked = pod("p", WEB, topologySpreadConstraints=[spread(WEB, ZONE, hard=False)])
    # Weighed by ln(2+2): 3 pods are 4 (4.16), 1 pod is 1 (1.39); 100*(4+1-crowd)/4.
    assert scene.scores(asked, "PodTopologySpread") == {"a1": 25, "a2": 25, "b1": 100}


def test_nodes_without_the_label_get_nothing_from_a_spread_wish() -> None:
    scene = Scene(*ZONED)
    scene.place(pod("w", WEB, on="a1"))
    asked = pod("p", WEB, topologySpreadConstraints=[spread(WEB, ZONE, hard=False)])
    assert scene.scores(asked, "PodTopologySpread") == {"a1": 0, "a2": 0, "b1": 100, "nowhere": 0}


def test_pods_of_one_controller_spread_by_themselves() -> None:
    scene = Scene(*ZONED[:3])
    scene.place(pod("w1", WEB, on="a1", owner="rs-1"))
    scene.place(pod("w2", WEB, on="b1", owner="rs-2"))
    scores = scene.scores(pod("p", WEB, owner="rs-1"), "PodTopologySpread")
    assert scores["b1"] > scores["a2"] > scores["a1"]


@pytest.mark.parametrize(("key", "count"), [("kubernetes.io/hostname", 6), (ZONE, 3)])
def test_equals_go_round_all_nodes(key: str, count: int) -> None:
    nodes = [node(f"n{number}", {ZONE: f"z{number % 3}"}) for number in range(6)]
    scene = Scene(*nodes)
    seen: set[Any] = set()
    for number in range(count):
        name = scene.chosen(pod(f"p{number}", cpu="1", owner="rs"))
        scene.place(pod(f"p{number}", cpu="1", owner="rs", on=name))
        seen.add(scene.cache.nodes.facts[scene.cache.nodes.slots[name]].labels[key])
    assert len(seen) == count

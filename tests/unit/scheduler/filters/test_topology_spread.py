"""Spread constraints, as Kubernetes documents them: tables of how pods are spread and who may take one more."""

from __future__ import annotations

from typing import Any

import pytest

from alcove.api.objects import Object
from alcove.scheduler.nodes import HOSTNAME, ZONE
from alcove.testing.scheduling import Scene, node, pod, spread

FOO, BAR = {"foo": ""}, {"bar": ""}
FOUR = {"a": "1", "b": "1", "x": "2", "y": "2"}
"""Nodes and their zones."""


def _scene(spreading: dict[str, int], zones: dict[str, str] | None = None, labels: Any = FOO) -> Scene:
    """So many pods with the labels on each node."""
    scene = Scene(*(node(name, {ZONE: zone} if zone else {}) for name, zone in (zones or FOUR).items()))
    for name, count in spreading.items():
        for number in range(count):
            scene.place(pod(f"{name}-{number}", labels, on=name))
    return scene


def _passing(scene: Scene, *constraints: Object, labels: Any = FOO, **spec: Any) -> set[str]:
    return scene.feasible(pod("p", labels, topologySpreadConstraints=list(constraints), **spec))


@pytest.mark.parametrize(
    ("spreading", "constraints", "labels", "expected"),
    [
        ({}, [spread(FOO, ZONE)], FOO, "a b x y"),
        # Who is not of those that are spread adds nothing.
        ({"a": 2, "b": 1, "y": 3}, [spread(FOO, HOSTNAME)], {}, "b x"),
        ({"a": 2, "b": 1, "y": 3}, [spread(FOO, HOSTNAME)], FOO, "x"),
        ({"a": 2, "b": 1, "y": 3}, [spread(FOO, HOSTNAME, 2)], FOO, "b x"),
        ({"a": 2, "b": 1, "y": 3}, [spread(FOO, ZONE)], FOO, "a b x y"),
        ({"a": 2, "b": 1, "y": 4}, [spread(FOO, ZONE)], FOO, "a b"),
        ({"a": 2, "b": 1, "y": 3}, [spread(FOO, ZONE), spread(FOO, HOSTNAME)], FOO, "x"),
        ({"a": 2, "b": 1, "y": 4}, [spread(FOO, ZONE), spread(FOO, HOSTNAME)], FOO, ""),
        ({"a": 1, "y": 1}, [spread(FOO, ZONE), spread(FOO, HOSTNAME)], FOO, "b x"),
        ({"a": 2}, [spread(FOO, "rack")], FOO, ""),
        # Two constraints about different pods.
        ({"a": 1}, [spread(FOO, ZONE), spread(BAR, HOSTNAME)], {**FOO, **BAR}, "x y"),
    ],
)
def test_one_more_where_it_stays_even(
    spreading: dict[str, int], constraints: list[Object], labels: Any, expected: str
) -> None:
    assert _passing(_scene(spreading), *constraints, labels=labels) == set(expected.split())


def test_nodes_without_the_label_are_no_domain_and_take_none() -> None:
    zones = {"a": "1", "b": "", "x": "2", "y": "2"}
    assert _passing(_scene({"a": 1, "b": 2, "x": 1, "y": 1}, zones), spread(FOO, ZONE)) == {"a"}


def test_with_several_constraints_only_nodes_with_all_labels_count() -> None:
    racks = {name: {"rack": name} for name in ("a", "x", "y")}
    scene = Scene(*(node(name, {ZONE: zone, **racks.get(name, {})}) for name, zone in FOUR.items()))
    for number in range(3):
        scene.place(pod(f"b-{number}", FOO, on="b"))
    # The three on the node without a rack are seen by nobody.
    assert _passing(scene, spread(FOO, ZONE), spread(FOO, "rack")) == {"a", "x", "y"}
    assert _passing(scene, spread(FOO, ZONE)) == {"x", "y"}


@pytest.mark.parametrize(
    ("spreading", "least", "skew", "expected"),
    [
        ({"a": 1, "b": 1, "x": 1}, 3, 1, "y"),
        # As many domains as asked for: the emptiest counts.
        ({"a": 1, "b": 1, "x": 1, "y": 1}, 4, 1, "a b x y"),
        # Fewer domains than asked for: as if there were an empty one.
        ({"a": 1, "b": 1, "x": 1, "y": 1}, 5, 1, ""),
        ({"a": 1, "b": 1, "x": 1, "y": 1}, 5, 2, "a b x y"),
        ({"a": 2, "b": 1, "x": 1, "y": 1}, 5, 2, "b x y"),
        ({}, 5, 1, "a b x y"),
    ],
)
def test_domains_asked_for_at_least(spreading: dict[str, int], least: int, skew: int, expected: str) -> None:
    found = _passing(_scene(spreading), spread(FOO, HOSTNAME, skew, minDomains=least))
    assert found == set(expected.split())


@pytest.mark.parametrize(
    ("affinity", "taints", "on_tainted", "expected"),
    [
        (None, None, 0, ""),
        (None, None, 1, "a x"),
        ("Honor", "Ignore", 0, ""),
        ("Honor", "Honor", 0, "a x"),
        ("Ignore", "Ignore", 1, ""),
        ("Ignore", "Honor", 1, ""),
    ],
)
def test_which_nodes_count(affinity: str | None, taints: str | None, on_tainted: int, expected: str) -> None:
    """There is one on a and one on x, which could take the pod; b is tainted, y is empty and not selected."""
    scene = Scene(
        node("a", {"ok": ""}),
        node("b", {"ok": ""}, taints=["t=:NoSchedule"]),
        node("x", {"ok": ""}),
        node("y"),
    )
    for name in ("a", "x", *["b"] * on_tainted):
        scene.place(pod(f"on-{name}", FOO, on=name))
    policies = {"nodeAffinityPolicy": affinity, "nodeTaintsPolicy": taints}
    constraint = spread(FOO, HOSTNAME) | {key: value for key, value in policies.items() if value}
    assert _passing(scene, constraint, nodeSelector={"ok": ""}) == set(expected.split())


@pytest.mark.parametrize(
    ("keys", "expected"),
    [([], "b1"), (["version"], "a1 b1"), (["version", "absent"], "a1 b1"), (["absent"], "b1")],
)
def test_label_keys_of_the_pod_itself(keys: list[str], expected: str) -> None:
    scene = Scene(node("a1", {ZONE: "a"}), node("b1", {ZONE: "b"}))
    scene.place(pod("old", {**FOO, "version": "1"}, on="a1"))
    constraint = spread(FOO, ZONE, matchLabelKeys=keys)
    assert _passing(scene, constraint, labels={**FOO, "version": "2"}) == set(expected.split())


def test_a_pod_that_room_is_made_for_counts_where_it_will_be() -> None:
    scene = _scene({})
    coming = scene.pod(pod("coming", FOO))
    scene.cache.nominate(coming, "a")
    one_more = spread(FOO, HOSTNAME)
    assert _passing(scene, one_more) == {"b", "x", "y"}
    assert _passing(scene, one_more, nodeSelector={HOSTNAME: "a"}) == {"a"}  # The only domain that counts.
    for name in ("b", "x", "y"):
        scene.place(pod(f"on-{name}", FOO, on=name))
    # With it, the emptiest node is no emptier than the others.
    assert _passing(scene, one_more) == {"a"}
    scene.cache.denominate(coming)
    assert _passing(scene, one_more) == {"a"}

"""Affinity between pods, as Kubernetes documents it: tables of who may go where beside whom."""

from __future__ import annotations

from typing import Any

import pytest

from alcove.api.objects import Object
from alcove.scheduler.nodes import HOSTNAME, ZONE
from alcove.testing.scheduling import TENANT, Scene, far, near, node, pod, term

NODES = (node("a1", {ZONE: "a"}), node("a2", {ZONE: "a"}), node("b1", {ZONE: "b"}), node("bare"))
ALL = {"a1", "a2", "b1", "bare"}
WEB = {"app": "web", "tier": "front"}


def _about(*expressions: tuple[str, str, list[str] | None], key: str = ZONE, **more: Any) -> Object:
    """A term about pods that these expressions hold for."""
    written = [
        {"key": name, "operator": operator, **({} if values is None else {"values": values})}
        for name, operator, values in expressions
    ]
    return {"labelSelector": {"matchExpressions": written}, "topologyKey": key, **more}


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (_about(("app", "In", ["web", "db"])), {"a1", "a2"}),
        (_about(("app", "NotIn", ["db"])), {"a1", "a2"}),
        (_about(("app", "NotIn", ["web"])), set()),
        (_about(("tier", "Exists", None)), {"a1", "a2"}),
        (_about(("canary", "DoesNotExist", None)), {"a1", "a2"}),
        (_about(("tier", "DoesNotExist", None)), set()),
        (_about(("app", "In", ["web"]), ("tier", "In", ["front"])), {"a1", "a2"}),
        (_about(("app", "In", ["web"]), ("tier", "In", ["back"])), set()),
        (_about(("app", "In", ["web"]), namespaces=["third"]), set()),
        # No selector picks nobody, an empty one everybody.
        ({"topologyKey": ZONE}, set()),
        ({"topologyKey": ZONE, "labelSelector": {}}, {"a1", "a2"}),
    ],
)
def test_whom_a_term_is_about(wanted: Object, expected: set[str]) -> None:
    scene = Scene(*NODES)
    scene.place(pod("web", WEB, on="a1"))
    # From another namespace: the pod is not of those the term is about.
    wanted = {"namespaces": ["default"], **wanted}
    assert scene.feasible(pod("p", namespace="else", affinity=near(wanted))) == expected
    assert scene.feasible(pod("p", namespace="else", affinity=far(wanted))) == ALL - expected


@pytest.mark.parametrize(
    ("term_of_placed", "labels", "expected"),
    [
        (term({"app": "p"}, ZONE), {"app": "p"}, {"b1", "bare"}),
        (term({"app": "p"}, HOSTNAME), {"app": "p"}, ALL - {"a1"}),
        (term({"app": "p"}, ZONE), {"app": "q"}, ALL),
        (term({"app": "p"}, "rack"), {"app": "p"}, ALL),
        (_about(("app", "NotIn", ["q"])), {"app": "p"}, {"b1", "bare"}),
        (term({"app": "p"}, ZONE, namespaces=["else"]), {"app": "p"}, ALL),
        (term({"app": "p"}, ZONE, namespaces=["default"]), {"app": "p"}, {"b1", "bare"}),
        (term({"app": "p"}, ZONE, namespaceSelector={}), {"app": "p"}, {"b1", "bare"}),
        (
            term({"app": "p"}, ZONE, namespaceSelector={"matchLabels": {"team": "x"}}),
            {"app": "p"},
            {"b1", "bare"},
        ),
        (term({"app": "p"}, ZONE, namespaceSelector={"matchLabels": {"team": "y"}}), {"app": "p"}, ALL),
        # The placed pod's own value of the label, or any other than that.
        (term({"app": "p"}, ZONE, matchLabelKeys=["version"]), {"app": "p", "version": "1"}, {"b1", "bare"}),
        (term({"app": "p"}, ZONE, matchLabelKeys=["version"]), {"app": "p", "version": "2"}, ALL),
        (term({"app": "p"}, ZONE, mismatchLabelKeys=["version"]), {"app": "p", "version": "1"}, ALL),
        (
            term({"app": "p"}, ZONE, mismatchLabelKeys=["version"]),
            {"app": "p", "version": "2"},
            {"b1", "bare"},
        ),
    ],
)
def test_whom_a_placed_pod_keeps_away(
    term_of_placed: Object, labels: dict[str, str], expected: set[str]
) -> None:
    scene = Scene(*NODES)
    scene.cache.affinity_index(TENANT).set_namespace("default", {"team": "x"})
    scene.place(pod("loner", {"app": "loner", "version": "1"}, on="a1", affinity=far(term_of_placed)))
    assert scene.feasible(pod("p", labels)) == expected


@pytest.mark.parametrize(
    ("mine", "theirs", "expected"),
    [
        # Each alone keeps the two apart; where neither speaks of the other, they meet.
        ([{"app": "web"}], [{"app": "p"}], {"b1", "bare"}),
        ([{"app": "web"}], [], {"b1", "bare"}),
        ([], [{"app": "p"}], {"b1", "bare"}),
        ([{"app": "db"}], [{"app": "q"}], ALL),
        # One term of several is enough.
        ([{"app": "db"}, {"tier": "front"}], [], {"b1", "bare"}),
        ([], [{"app": "q"}, {"app": "p"}], {"b1", "bare"}),
    ],
)
def test_apart_both_ways(
    mine: list[dict[str, str]], theirs: list[dict[str, str]], expected: set[str]
) -> None:
    scene = Scene(*NODES)
    scene.place(pod("web", WEB, on="a1", affinity=far(*(term(each, ZONE) for each in theirs))))
    asked = pod("p", {"app": "p"}, affinity=far(*(term(each, ZONE) for each in mine)))
    assert scene.feasible(asked) == expected


@pytest.mark.parametrize(
    ("terms", "labels", "expected"),
    [
        ([term(WEB, ZONE)], WEB, {"a1", "a2", "b1"}),
        ([term(WEB, ZONE), term({"app": "web"}, HOSTNAME)], WEB, {"a1", "a2", "b1"}),
        # It must be of those that all terms pick.
        ([term(WEB, ZONE), term({"app": "db"}, ZONE)], WEB, set()),
        ([term(WEB, ZONE)], {"app": "web"}, set()),
        ([term(WEB, ZONE, namespaces=["else"])], WEB, set()),
    ],
)
def test_the_first_of_its_kind(terms: list[Object], labels: dict[str, str], expected: set[str]) -> None:
    assert Scene(*NODES).feasible(pod("p", labels, affinity=near(*terms))) == expected


def test_pods_beyond_the_labels_reach_are_nobodys_neighbours() -> None:
    """On a node without the label there is nobody near: the first of its kind may still be elsewhere."""
    scene = Scene(*NODES)
    scene.place(pod("web", WEB, on="bare"))
    assert scene.feasible(pod("p", WEB, affinity=near(term(WEB, ZONE)))) == {"a1", "a2", "b1"}
    assert scene.feasible(pod("q", {"app": "q"}, affinity=near(term(WEB, ZONE)))) == set()


def test_pods_in_labelled_namespaces_follow_the_labels() -> None:
    scene = Scene(*NODES)
    scene.place(pod("web", WEB, namespace="else", on="a1"))
    index = scene.cache.affinity_index(TENANT)
    apart = far(term(WEB, ZONE, namespaceSelector={"matchLabels": {"team": "x"}}))
    assert scene.feasible(pod("p", affinity=apart)) == ALL
    index.set_namespace("else", {"team": "x"})
    assert scene.feasible(pod("p", affinity=apart)) == {"b1", "bare"}
    index.set_namespace("else", {"team": "y"})
    assert scene.feasible(pod("p", affinity=apart)) == ALL


def test_a_pod_that_room_is_made_for_keeps_its_distance_already() -> None:
    scene = Scene(*NODES)
    loner = scene.pod(pod("loner", {"app": "loner"}, affinity=far(term(WEB, ZONE))))
    scene.cache.nominate(loner, "a1")
    assert scene.feasible(pod("p", WEB)) == {"b1", "bare"}
    assert scene.feasible(pod("q", affinity=far(term({"app": "loner"}, ZONE)))) == {"b1", "bare"}
    scene.cache.denominate(loner)
    assert scene.feasible(pod("p", WEB)) == ALL

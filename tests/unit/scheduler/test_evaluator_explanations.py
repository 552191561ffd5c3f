"""The messages when no node fits a pod, word for word those of kube-scheduler 1.36."""

from __future__ import annotations

from typing import Any

import pytest

from alcove.api.objects import Object
from alcove.scheduler.bounds import POD_TERMS_MAX
from alcove.scheduler.nodes import ZONE
from alcove.testing.scheduling import Scene, asking, far, near, node, pod, spread, term


def test_reasons_are_counted_and_sorted_as_text() -> None:
    scene = Scene(
        node("a", cpu="1"),
        node("b", cpu="1"),
        node("c", taints=["k=v:NoSchedule"]),
        node("d", unschedulable=True),
    )
    assert scene.why(pod("p", cpu="2")) == (
        "0/4 nodes are available: 1 node(s) had untolerated taint(s), 1 node(s) were unschedulable, 2 Insufficient cpu."
    )


def test_a_node_that_lacks_several_resources_is_counted_for_each() -> None:
    scene = Scene(node("a", cpu="1", memory="1Gi", pods="0"))
    assert scene.why(pod("p", containers=asking(cpu="2", memory="2Gi", gpu="1"))) == (
        "0/1 nodes are available: 1 Insufficient cpu, 1 Insufficient example.com/gpu, "
        "1 Insufficient memory, 1 Too many pods."
    )


def test_without_nodes() -> None:
    assert Scene().why(pod("p")) == "no nodes available to schedule pods"


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"nodeSelector": {"a": "b"}}, "1 node(s) didn't match Pod's node affinity/selector"),
        ({"affinity": near(term({"app": "x"}))}, "1 node(s) didn't match pod affinity rules"),
        ({"affinity": far(term({"app": "web"}))}, "1 node(s) didn't match pod anti-affinity rules"),
        (
            {"topologySpreadConstraints": [spread({"app": "p"}, ZONE)]},
            "1 node(s) didn't match pod topology spread constraints (missing required label)",
        ),
        (
            {"topologySpreadConstraints": [spread({"app": "web"}, "kubernetes.io/hostname", minDomains=2)]},
            "1 node(s) didn't match pod topology spread constraints",
        ),
        (
            {"containers": [{"name": "c", "ports": [{"hostPort": 80}]}]},
            "1 node(s) didn't have free ports for the requested pod ports",
        ),
    ],
)
def test_words_of_each_filter(spec: dict[str, Any], reason: str) -> None:
    scene = Scene(node("n"))
    scene.place(pod("web", {"app": "web"}, on="n", containers=[{"name": "c", "ports": [{"hostPort": 80}]}]))
    assert scene.why(pod("p", {"app": "web"}, **spec)) == f"0/1 nodes are available: {reason}."


def test_pods_kept_away_by_others() -> None:
    scene = Scene(node("n"))
    scene.place(pod("loner", on="n", affinity=far(term({"app": "web"}))))
    message = "1 node(s) didn't satisfy existing pods anti-affinity rules"
    assert scene.why(pod("p", {"app": "web"})) == f"0/1 nodes are available: {message}."


def _fields(*terms: list[str]) -> Object:
    selector_terms = [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]} for name in names]}
        for names in terms
    ]
    return {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": selector_terms}
        }
    }


def test_affinity_to_named_nodes_counts_the_others_together() -> None:
    scene = Scene(node("a", cpu="1"), node("b"), node("c", taints=["k=v:NoSchedule"]))
    assert scene.why(pod("p", cpu="2", affinity=_fields(["a"]))) == (
        "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't satisfy plugin(s) [NodeAffinity]."
    )
    assert scene.why(pod("p", affinity=_fields(["a", "b"]))) == (
        "0/3 nodes are available: pod affinity terms conflict."
    )


def _label_selector(operator: str) -> Object:
    expression = {"key": "a", "operator": operator, "values": ["b"]}
    return far({"labelSelector": {"matchExpressions": [expression]}, "topologyKey": ZONE})


def _node_expression(operator: str, *values: str) -> Object:
    terms = [{"matchExpressions": [{"key": "a", "operator": operator, "values": list(values)}]}]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}


def _expression(operator: str, values: int, key: str = "a") -> Object:
    return {"key": key, "operator": operator, "values": [f"v{number}" for number in range(values)]}


def _expressions(count: int) -> list[Object]:
    return [_expression("NotIn", 1, f"k{number}") for number in range(count)]


def _selector(expressions: list[Object]) -> Object:
    return {"matchExpressions": expressions}


def _far_term(expressions: list[Object]) -> Object:
    return {"labelSelector": _selector(expressions), "topologyKey": ZONE}


def _far_from(expressions: list[Object]) -> Object:
    return far(_far_term(expressions))


def _node_terms(*terms: list[Object]) -> Object:
    written = [{"matchExpressions": each} for each in terms]
    return {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": written}}
    }


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"containers": asking(cpu="lots")}, "quantities must match the regular expression"),
        ({"overhead": {"memory": "1mi"}}, "unable to parse quantity's suffix"),
        ({"affinity": _label_selector("Near")}, '"Near" is not a valid label selector operator'),
        ({"affinity": far({"labelSelector": {"matchLabels": {"-": "x"}}})}, "Invalid value"),
        ({"affinity": _node_expression("Like", "x")}, '"Like" is not a valid node selector operator'),
        ({"affinity": _node_expression("Gt", "x")}, "the value must be an integer"),
        ({"affinity": far(*[term({"a": "b"})] * (POD_TERMS_MAX + 1))}, f"the maximum is {POD_TERMS_MAX}"),
        ({"affinity": near(*[term({"a": "b"})] * 1_000_000)}, "pod affinity has 1000000 terms"),
        ({"topologySpreadConstraints": [spread({}, ZONE)] * 300}, "300 topology spread constraints"),
        ({"affinity": _far_from(_expressions(30_000))}, "label selectors have 30000 requirements"),
        ({"affinity": far(*[_far_term(_expressions(5))] * 30)}, "label selectors have 150 requirements"),
        ({"affinity": _far_from([_expression("In", 30_000)])}, "label selectors have 30000 values"),
        (
            {
                "topologySpreadConstraints": [
                    {**spread({}, ZONE), "labelSelector": _selector(_expressions(200))}
                ]
            },
            "label selectors have 200 requirements",
        ),
        ({"affinity": _node_terms(*[_expressions(1)] * 1_000_000)}, "node affinity has 1000000 terms"),
        ({"affinity": _node_terms(_expressions(30_000))}, "node affinity has 30000 requirements"),
        (
            {"nodeSelector": {f"k{number}": "" for number in range(2000)}},
            "node affinity has 2000 requirements",
        ),
        ({"tolerations": [{"operator": "Exists"}] * 1000}, "pod has 1000 tolerations"),
        (
            {"containers": [{"name": "c", "ports": [{"hostPort": port} for port in range(1, 2001)]}]},
            "pod has 2000 host ports",
        ),
        (
            {"volumes": [{"name": f"v{number}", "iscsi": {"iqn": f"{number}"}} for number in range(300)]},
            "pod has 300 claims and disks",
        ),
        ({"affinity": [1, 2]}, "parsing pod"),
        ({"containers": 7}, "parsing pod"),
        ({"tolerations": ["all"]}, "parsing pod"),
        ({"resourceClaims": [{"name": "gpu"}]}, "spec.resourceClaims is not supported"),
    ],
)
def test_an_invalid_spec_is_reported_and_harms_nobody(spec: dict[str, Any], message: str) -> None:
    scene = Scene(node("n"))
    assert message in scene.why(pod("bad", **spec))
    assert scene.why(pod("bad", **spec)).startswith("0/1 nodes are available: ")
    assert scene.feasible(pod("good")) == {"n"}


def test_what_asks_for_too_much_still_counts_where_it_runs() -> None:
    """It may have been placed by another scheduler."""
    scene = Scene(node("n", cpu="4"))
    ports = [{"hostPort": port} for port in range(1, 2001)]
    container = {"name": "c", "ports": ports, "resources": {"requests": {"cpu": "3"}}}
    scene.place(pod("huge", on="n", containers=[container]))
    assert scene.feasible(pod("p", cpu="2")) == set()
    assert scene.feasible(pod("p", containers=[{"name": "c", "ports": ports[:1]}])) == set()
    assert scene.feasible(pod("p", cpu="1")) == {"n"}


def test_an_alternative_that_makes_sense_is_enough() -> None:
    terms = [
        {"matchExpressions": [{"key": "a", "operator": "Like", "values": ["x"]}]},
        {"matchExpressions": [{"key": "zone", "operator": "Exists"}]},
    ]
    affinity = {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    }
    assert Scene(node("n", {"zone": "z"})).feasible(pod("p", affinity=affinity)) == {"n"}


def test_affinities_in_a_circle_stay_pending() -> None:
    scene = Scene(node("n"))
    first = pod("a", {"app": "a"}, affinity=near(term({"app": "b"})))
    second = pod("b", {"app": "b"}, affinity=near(term({"app": "a"})))
    for each in (first, second):
        assert scene.why(each) == "0/1 nodes are available: 1 node(s) didn't match pod affinity rules."

"""Which nodes a selector takes: numbers in labels, several requirements and terms, nodes' names."""

from __future__ import annotations

import pytest

from alcove.api.objects import Object
from alcove.testing.scheduling import Scene, node, pod

VERSIONS = ("0206", "-3", "+5", "1.5", "9223372036854775807", "9223372036854775808", "", "x")


def _affinity(*terms: Object) -> Object:
    return {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
    }


def _expression(key: str, operator: str, *values: str) -> Object:
    return {"key": key, "operator": operator, "values": list(values)}


def _passing(scene: Scene, *terms: Object) -> set[str]:
    return scene.feasible(pod("p", affinity=_affinity(*terms)))


@pytest.mark.parametrize(
    ("operator", "value", "expected"),
    [
        ("Gt", "0204", {"0206", "9223372036854775807"}),
        ("Gt", "206", {"9223372036854775807"}),
        ("Gt", "-4", {"0206", "-3", "+5", "9223372036854775807"}),
        ("Gt", "9223372036854775806", {"9223372036854775807"}),
        ("Lt", "6", {"-3", "+5"}),
        ("Lt", "-3", set()),
        ("Lt", "+6", {"-3", "+5"}),
    ],
)
def test_numbers_are_compared_as_numbers(operator: str, value: str, expected: set[str]) -> None:
    """What spells no integer of 64 bits, or is missing, is neither greater nor less."""
    nodes = [node(f"n{number}", {"version": text}) for number, text in enumerate(VERSIONS)]
    scene = Scene(*nodes, node("without"))
    found = _passing(scene, {"matchExpressions": [_expression("version", operator, value)]})
    assert {VERSIONS[int(name[1:])] for name in found} == expected


@pytest.mark.parametrize(
    "expression",
    [
        _expression("cores", "Gt"),
        _expression("cores", "Gt", "1", "2"),
        _expression("cores", "Gt", "1.5"),
        _expression("cores", "Lt", "9223372036854775808"),
        _expression("cores", "In"),
        _expression("cores", "Exists", "4"),
        _expression("cores", "Greater", "1"),
    ],
)
def test_what_makes_no_sense_takes_no_node_and_leaves_other_terms_alone(expression: Object) -> None:
    scene = Scene(node("n", {"cores": "4"}), node("m", {"cores": "8"}))
    senseless = {"matchExpressions": [_expression("cores", "Exists"), expression]}
    assert _passing(scene, senseless) == set()
    assert _passing(scene, senseless, {"matchExpressions": [_expression("cores", "In", "8")]}) == {"m"}


SSD, MANY = _expression("disk", "In", "ssd"), _expression("cores", "Gt", "4")


def _term(*expressions: Object, fields: tuple[Object, ...] = ()) -> Object:
    return {"matchExpressions": list(expressions), "matchFields": list(fields)}


def _name(operator: str, *names: str) -> Object:
    return _term(fields=(_expression("metadata.name", operator, *names),))


@pytest.mark.parametrize(
    ("terms", "expected"),
    [
        ([_term(SSD, MANY)], {"b"}),
        ([_term(SSD), _term(MANY)], {"a", "b", "c"}),
        ([_term(_expression("disk", "NotIn", "ssd"))], {"c", "d"}),
        ([_term(MANY, fields=(_expression("metadata.name", "NotIn", "c"),))], {"b"}),
        ([_name("In", "a", "zzz"), _term(_expression("disk", "DoesNotExist"))], {"a", "d"}),
        ([_term(fields=(_expression("metadata.labels", "In", "a"),))], set()),
        ([_term()], set()),
        ([_term(), _term(_expression("disk", "Exists"))], {"a", "b", "c"}),
        ([], set()),
    ],
)
def test_requirements_all_hold_and_terms_are_alternatives(terms: list[Object], expected: set[str]) -> None:
    scene = Scene(
        node("a", {"disk": "ssd", "cores": "4"}),
        node("b", {"disk": "ssd", "cores": "8"}),
        node("c", {"disk": "hdd", "cores": "8"}),
        node("d", {"cores": "4"}),
    )
    assert _passing(scene, *terms) == expected

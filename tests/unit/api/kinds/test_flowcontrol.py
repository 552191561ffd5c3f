"""Flow schemas and priority levels: defaults, Kubernetes' checks and messages, and the objects that are fixed."""

import copy
from typing import Any

import pytest

from alcove.api.kinds.flowcontrol import STRATEGIES
from alcove.api.kinds.flowcontrol.defaults import FLOW_SCHEMAS, PRIORITY_LEVELS
from alcove.api.objects import Object

SCHEMAS, LEVELS = STRATEGIES["flowschemas"], STRATEGIES["prioritylevelconfigurations"]
ANY: Object = {"verbs": ["*"], "nonResourceURLs": ["*"]}
ANN: Object = {"kind": "User", "user": {"name": "ann"}}


def schema(rule: Object | None = None, name: str = "mine", **spec: Any) -> Object:
    rules = {"subjects": [ANN], "nonResourceRules": [ANY], **(rule or {})}
    fixed = {"matchingPrecedence": 500, "priorityLevelConfiguration": {"name": "low"}, "rules": [rules]}
    return {"metadata": {"name": name}, "spec": {**fixed, **spec}}


def resource_rule(**fields: Any) -> Object:
    rule = {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "namespaces": ["*"], **fields}
    return {"resourceRules": [rule]}


def urls(*values: str) -> Object:
    return {"nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": list(values)}]}


RULE = "spec.rules[0]"
SCHEMA_CASES: list[tuple[Object, list[str]]] = [
    (schema(), []),
    (schema(resource_rule()), []),
    (schema(resource_rule(namespaces=[], clusterScope=True)), []),
    (schema(urls("/", "/a", "/a/*")), []),
    (schema(matchingPrecedence=-1), ["spec.matchingPrecedence: Invalid value: -1: must be a positive value"]),
    (schema(matchingPrecedence=10001), ["spec.matchingPrecedence: Invalid value: 10001: must not be greater than 10000"]),
    (schema(matchingPrecedence=1), [
        "spec.matchingPrecedence: Invalid value: 1: only the schema named 'exempt' may have matchingPrecedence 1"]),
    (schema(distinguisherMethod={"type": "ByDay"}), [
        'spec.distinguisherMethod.type: Unsupported value: {"type":"ByDay"}: supported values: "ByNamespace", "ByUser"']),
    (schema(priorityLevelConfiguration={}), [
        "spec.priorityLevelConfiguration.name: Required value: must reference a priority level"]),
    (schema({"subjects": []}), [f"{RULE}.subjects: Required value: subjects must contain at least one value"]),
    (schema({"nonResourceRules": []}), [
        f"{RULE}: Required value: at least one of resourceRules and nonResourceRules has to be non-empty"]),
    (schema({"subjects": [{"kind": "Robot"}]}), [
        f'{RULE}.subjects[0].kind: Unsupported value: "Robot": supported values: "Group", "ServiceAccount", "User"']),
    (schema({"subjects": [{"kind": "User"}]}), [
        f"{RULE}.subjects[0].user: Required value: user is required when subject kind is 'User'"]),
    (schema({"subjects": [{**ANN, "group": {"name": "g"}}]}), [
        f"{RULE}.subjects[0].group: Forbidden: group is forbidden when subject kind is not 'Group'"]),
    (schema({"subjects": [{"kind": "ServiceAccount", "serviceAccount": {"name": "*"}}]}), [
        f"{RULE}.subjects[0].serviceAccount.namespace: Required value: must specify namespace for service account"]),
    (schema(resource_rule(verbs=["*", "get"])), [
        f"{RULE}.resourceRules[0].verbs: Invalid value: [\"*\",\"get\"]: if '*' is present, must not specify other verbs"]),
    (schema(resource_rule(apiGroups=[])), [
        f"{RULE}.resourceRules[0].apiGroups: Required value: resource rules must supply at least one api group"]),
    (schema(resource_rule(namespaces=[])), [
        f"{RULE}.resourceRules[0].namespaces: Required value: "
        "resource rules that are not cluster scoped must supply at least one namespace"]),
    (schema(urls("a")), [f'{RULE}.nonResourceRules[0].nonResourceURLs[0]: Invalid value: "a": must start with slash']),
    (schema(urls("/a//b")), [
        f'{RULE}.nonResourceRules[0].nonResourceURLs[0]: Invalid value: "/a//b": must not contain double slash']),
    (schema(urls("/a*")), [
        f'{RULE}.nonResourceRules[0].nonResourceURLs[0]: Invalid value: "/a*": wildcard can only do suffix matching']),
    (schema({"subjects": [ANN] * 500}), ["spec: Too long: may not be more than 16384 bytes"]),
]  # fmt: skip


@pytest.mark.parametrize(("obj", "expected"), SCHEMA_CASES)
def test_flow_schemas_are_checked(obj: Object, expected: list[str]) -> None:
    assert [str(error) for error in SCHEMAS.validate(obj)] == expected


def level(name: str = "mine", **limited: Any) -> Object:
    fixed = {"nominalConcurrencyShares": 10, "lendablePercent": 0, "limitResponse": {"type": "Reject"}}
    return {"metadata": {"name": name}, "spec": {"type": "Limited", "limited": {**fixed, **limited}}}


def queue(**queuing: int) -> Object:
    fixed = {"queues": 64, "handSize": 8, "queueLengthLimit": 50}
    return {"limitResponse": {"type": "Queue", "queuing": {**fixed, **queuing}}}


LIMITED = "spec.limited"
QUEUING = "spec.limited.limitResponse.queuing"
LEVEL_CASES: list[tuple[Object, list[str]]] = [
    (level(), []),
    (level(nominalConcurrencyShares=0), []),
    (level(**queue()), []),
    (level("exempt"), [
        "spec.type: Invalid value: \"Limited\": must be 'Exempt' if and only if `name` is 'exempt'",
        'spec: Invalid value: {"type":"Limited","limited":{"nominalConcurrencyShares":10,"lendablePercent":0,'
        "\"limitResponse\":{\"type\":\"Reject\"}}}: spec of 'exempt' except the 'spec.exempt' field must equal the fixed value"]),
    (level(nominalConcurrencyShares=-1), [f"{LIMITED}.nominalConcurrencyShares: Invalid value: -1: must be a non-negative integer"]),
    (level(lendablePercent=101), [f"{LIMITED}.lendablePercent: Invalid value: 101: must be between 0 and 100, inclusive"]),
    (level(borrowingLimitPercent=-1), [
        f"{LIMITED}.borrowingLimitPercent: Invalid value: -1: if specified, must be a non-negative integer"]),
    (level(limitResponse={}), [f"{LIMITED}.limitResponse.type: Required value"]),
    (level(limitResponse={"type": "Queue"}), [
        f"{QUEUING}: Required value: must not be empty if limited.limitResponse.type is Limited"]),
    (level(limitResponse={"type": "Reject", "queuing": {}}), [
        f"{QUEUING}: Forbidden: must be nil if limited.limitResponse.type is not Limited"]),
    (level(**queue(queues=0)), [
        f"{QUEUING}.queues: Invalid value: 0: must be positive",
        f"{QUEUING}.handSize: Invalid value: 8: should not be greater than queues (0)"]),
    (level(**queue(handSize=11)), [
        f"{QUEUING}.handSize: Invalid value: 11: "
        "required entropy bits of deckSize 64 and handSize 11 should not be greater than 60"]),
    ({"metadata": {"name": "mine"}, "spec": {"type": "Limited"}}, [
        "spec.limited: Required value: must not be empty when type is Limited"]),
    ({"metadata": {"name": "mine"}, "spec": {}}, ["spec.type: Required value"]),
]  # fmt: skip


@pytest.mark.parametrize(("obj", "expected"), LEVEL_CASES)
def test_priority_levels_are_checked(obj: Object, expected: list[str]) -> None:
    assert [str(error) for error in LEVELS.validate(obj)] == expected


def test_defaults_are_those_of_kubernetes() -> None:
    made = level(limitResponse={"type": "Queue", "queuing": {}})
    del made["spec"]["limited"]["nominalConcurrencyShares"]
    LEVELS.default(made)
    limited = made["spec"]["limited"]
    assert limited["nominalConcurrencyShares"] == 30
    assert limited["limitResponse"]["queuing"] == {"queues": 64, "handSize": 8, "queueLengthLimit": 50}
    other = schema(matchingPrecedence=0)
    SCHEMAS.default(other)
    assert other["spec"]["matchingPrecedence"] == 1000


def test_built_in_objects_are_valid_and_complete() -> None:
    for strategy, objects in ((SCHEMAS, FLOW_SCHEMAS), (LEVELS, PRIORITY_LEVELS)):
        for name, obj in objects.items():
            before = copy.deepcopy(obj)
            strategy.default(before)
            assert before == obj, name
            assert list(strategy.validate(obj)) == [], name
    named = {each["spec"]["priorityLevelConfiguration"]["name"] for each in FLOW_SCHEMAS.values()}
    assert named == set(PRIORITY_LEVELS)


@pytest.mark.parametrize("name", ["exempt", "catch-all"])
def test_mandatory_objects_have_a_fixed_spec(name: str) -> None:
    changed = copy.deepcopy(FLOW_SCHEMAS[name])
    changed["spec"]["rules"] = []
    assert "must equal the fixed value" in str(SCHEMAS.validate(changed)[-1])
    other = copy.deepcopy(PRIORITY_LEVELS[name])
    if name == "exempt":
        other["spec"]["exempt"]["nominalConcurrencyShares"] = 7
        assert list(LEVELS.validate(other)) == []
    else:
        other["spec"]["limited"]["nominalConcurrencyShares"] = 7
        assert "must equal the fixed value" in str(LEVELS.validate(other)[-1])


def test_conditions_have_types_of_their_own() -> None:
    obj = {**schema(), "status": {"conditions": [{"type": "A"}, {"type": "A"}, {}]}}
    assert [str(error) for error in SCHEMAS.validate_status(obj, obj)] == [
        'status.conditions[1].type: Duplicate value: "A"',
        "status.conditions[2].type: Required value",
    ]

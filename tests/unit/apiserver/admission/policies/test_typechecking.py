"""Type errors of a policy's expressions are reported in its status, as Kubernetes' controller does."""

from typing import Any

import pytest

from alcove.api import registry
from alcove.api.ids import TenantId
from alcove.api.objects import Object
from alcove.api.resources import CRDS
from alcove.apiserver.admission.policies import typechecking
from alcove.apiserver.admission.policies.named_kinds import named_kinds
from alcove.apiserver.crds.kinds import CustomKinds
from alcove.testing.memory_reader import MemoryReader

REGISTRY = registry.load()
A, B = TenantId("a"), TenantId("b")
DEPLOYMENTS = {
    "apiGroups": ["apps"],
    "apiVersions": ["v1"],
    "operations": ["*"],
    "resources": ["deployments"],
}


def rule(groups: str, versions: str, resources: str) -> Object:
    named = {
        "apiGroups": groups.split(","),
        "apiVersions": versions.split(","),
        "resources": resources.split(","),
    }
    return {"operations": ["*"], **named}


@pytest.fixture
def kinds() -> CustomKinds:
    """Tenant `b` has a custom kind."""
    reader = MemoryReader()
    spec = {"type": "object", "properties": {"size": {"type": "integer"}}}
    schema = {"type": "object", "properties": {"spec": spec}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "ships", "kind": "Ship"}
    crd: Object = {
        "metadata": {"name": "ships.sea.example", "tenant": B},
        "spec": {"group": "sea.example", "scope": "Namespaced", "names": names, "versions": [version]},
        "status": {
            "acceptedNames": names,
            "conditions": [{"type": "Established", "status": "True"}],
            "storedVersions": ["v1"],
        },
    }
    reader.put(B, CRDS, crd)
    return CustomKinds(REGISTRY, reader, lambda: 0.0)


def checked(kinds: CustomKinds, *expressions: str, tenant: TenantId = A, **spec: Any) -> list[Object]:
    rules = spec.pop("rules", [DEPLOYMENTS])
    policy: Object = {
        "metadata": {"name": "p", "generation": 3},
        "spec": {
            "matchConstraints": {"resourceRules": rules},
            "validations": [{"expression": each} for each in expressions],
            **spec,
        },
    }
    status = typechecking.status(named_kinds(kinds, tenant, policy["spec"]), policy)
    assert status["observedGeneration"] == 3
    found: list[Object] = status["typeChecking"].get("expressionWarnings", [])
    return found


def test_an_unknown_field_is_reported(kinds: CustomKinds) -> None:
    assert checked(kinds, "object.spec.replicas <= 5", "object.replicas > 1") == [
        {
            "fieldRef": "spec.validations[1].expression",
            "warning": "apps/v1, Kind=Deployment: ERROR: <input>:1:7: undefined field 'replicas'\n"
            " | object.replicas > 1\n"
            " | ......^\n",
        }
    ]


@pytest.mark.parametrize(
    "expression",
    [
        "object.spec.replicas == oldObject.spec.replicas",
        "object.spec == oldObject.spec",
        "oldObject == null || object.metadata.name.startsWith('a')",
        "object.metadata.namespace != 'kube-system'",
        "object.metadata.__namespace__ != 'kube-system'",
        "has(object.metadata.labels) && 'app' in object.metadata.labels",
        "object.metadata.labels.app == 'x'",
        "object.metadata.creationTimestamp < timestamp('2030-01-01T00:00:00Z')",
        "object.spec.template.spec.containers.all(c, c.image.startsWith('r/') && !c.?securityContext.privileged.orValue(false))",
        "(object.spec.template.spec.containers + object.spec.template.spec.initContainers).size() < 9",
        "object.spec.strategy.rollingUpdate.maxSurge == '25%'",
        "quantity(object.spec.template.spec.containers[0].resources.limits['memory']).isLessThan(quantity('1Gi'))",
        "request.operation != 'DELETE' && authorizer.group('').resource('pods').check('get').allowed()",
    ],
)
def test_valid_expressions_have_no_warnings(kinds: CustomKinds, expression: str) -> None:
    assert checked(kinds, expression) == []


@pytest.mark.parametrize(
    "expression",
    [
        "object.spec.replicas == 'three'",
        "object.spec.replicas.startsWith('3')",
        "object.spec.template.spec.containers.all(c, c.imagee != '')",
        "object.metadata.labels.all(l, l > 3)",
        "object.metadata.creationTimestamp == '2030-01-01T00:00:00Z'",
    ],
)
def test_type_errors_are_reported(kinds: CustomKinds, expression: str) -> None:
    [found] = checked(kinds, expression)
    assert found["warning"].startswith("apps/v1, Kind=Deployment: ERROR: <input>:1:")


def test_every_kind_that_is_named_is_looked_at(kinds: CustomKinds) -> None:
    [found] = checked(
        kinds, "object.spec.replicas > 0", rules=[DEPLOYMENTS, rule("", "v1", "pods,pods/status")]
    )
    assert found["warning"].startswith("/v1, Kind=Pod: ERROR: <input>:1:12: undefined field 'replicas'")
    both = checked(kinds, "object.nothing", rules=[DEPLOYMENTS, rule("", "v1", "pods")])[0]["warning"]
    assert both.index("/v1, Kind=Pod") < both.index("\n\napps/v1, Kind=Deployment")


@pytest.mark.parametrize(
    "rules", [[rule("*", "v1", "pods")], [rule("", "*", "pods")], [rule("", "v1", "*")], []]
)
def test_wildcards_name_nothing(kinds: CustomKinds, rules: list[Object]) -> None:
    assert checked(kinds, "object.nothing", rules=rules) == []


def test_variables_messages_and_params(kinds: CustomKinds) -> None:
    variables = [{"name": "count", "expression": "object.spec.replicas"}]
    validations = [{"expression": "variables.count == 'x'", "messageExpression": "object.nothing"}]
    found = checked(kinds, variables=variables, validations=validations)
    assert [each["fieldRef"] for each in found] == [
        "spec.validations[0].expression",
        "spec.validations[0].messageExpression",
    ]
    param = {"apiVersion": "v1", "kind": "ConfigMap"}
    [only] = checked(kinds, "params.data.limit == '3'", "params.date == null", paramKind=param)
    assert only["fieldRef"] == "spec.validations[1].expression"
    assert checked(kinds, "params.date == null", paramKind={"apiVersion": "x/v1", "kind": "Unknown"}) == []


def test_a_tenants_own_kinds(kinds: CustomKinds) -> None:
    rules = [rule("sea.example", "v1", "ships")]
    [found] = checked(kinds, "object.spec.size > 1", "object.spec.length > 1", tenant=B, rules=rules)
    assert "undefined field 'length'" in found["warning"]
    assert checked(kinds, "object.spec.length > 1", tenant=A, rules=rules) == []


def test_much_text_is_checked_against_fewer_kinds(kinds: CustomKinds) -> None:
    rules = [rule("", "v1", "pods,services,configmaps")]
    long = "object.nothing" + " || object.nothing" * 1000
    [found] = checked(kinds, long, rules=rules)
    assert found["warning"].count("Kind=") == 1
    assert checked(kinds, long + " || true" * 3000, rules=rules) == []


def test_other_parts_of_the_status_stay(kinds: CustomKinds) -> None:
    conditions = [{"type": "Ready", "status": "True"}]
    policy: Object = {"metadata": {"generation": 1}, "spec": {}, "status": {"conditions": conditions}}
    assert typechecking.status(named_kinds(kinds, A, policy["spec"]), policy) == {
        "conditions": conditions,
        "observedGeneration": 1,
        "typeChecking": {},
    }

"""Admission policies in CEL: whom they concern, what they say, what they change."""

import asyncio
import copy
import sys
import time
from typing import Any

import pytest
from msgspec.structs import replace

from alcove.api import registry
from alcove.api.errors import ApiError, Forbidden, Invalid, TooLarge
from alcove.api.ids import SYSTEM, GroupResource, TenantId
from alcove.api.kind import Kind
from alcove.api.objects import Object
from alcove.api.resources import CONFIG_MAPS, NAMESPACES
from alcove.apiserver.admission.base import Attributes, Operation
from alcove.apiserver.admission.policy import (
    AUDIT_KEY,
    MUTATING,
    MUTATING_BINDINGS,
    VALIDATING,
    VALIDATING_BINDINGS,
    MutatingPolicies,
    ValidatingPolicies,
)
from alcove.apiserver.computing import ComputeThreads
from alcove.apiserver.crds.kinds import CustomKinds
from alcove.apiserver.identity import Identity
from alcove.apiserver.rbac.authorize import Authorizer
from alcove.testing.memory_reader import MemoryReader

REGISTRY = registry.load()
A, B = TenantId("a"), TenantId("b")
RULE: Object = {
    "apiGroups": ["*"],
    "apiVersions": ["*"],
    "operations": ["*"],
    "resources": ["*/*", "*"],
    "scope": "*",
}


def kind_of(resource: str, group: str = "", version: str = "v1") -> Kind:
    found = REGISTRY.find(group, version, resource)
    assert found is not None
    return found


def deployment(replicas: int = 3, **labels: str) -> Object:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "shop", "labels": labels},
        "spec": {
            "replicas": replicas,
            "template": {"spec": {"containers": [{"name": "c", "image": "nginx:1"}]}},
        },
    }


class World:
    def __init__(self) -> None:
        self.reader = MemoryReader()
        kinds = CustomKinds(REGISTRY, self.reader, lambda: 0.0)
        authorizer, threads = Authorizer(self.reader), ComputeThreads()
        self.validating = ValidatingPolicies(self.reader, kinds, authorizer, threads)
        self.mutating = MutatingPolicies(self.reader, kinds, authorizer, threads)
        for tenant in (A, B, SYSTEM):
            namespace = {
                "metadata": {"name": "shop", "labels": {"env": "prod"}},
                "status": {"phase": "Active"},
            }
            self.reader.put(tenant, NAMESPACES, namespace)

    def policy(
        self,
        *expressions: str | Object,
        tenant: TenantId = A,
        actions: tuple[str, ...] = ("Deny",),
        **spec: Any,
    ) -> None:
        match = spec.pop("match", {})
        binding = spec.pop("binding", {})
        validations = [{"expression": each} if isinstance(each, str) else each for each in expressions]
        body = {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [RULE], **match},
            "validations": validations,
            **spec,
        }
        self.reader.put(tenant, VALIDATING, {"metadata": {"name": "p"}, "spec": body})
        bound = {"policyName": "p", "validationActions": list(actions), **binding}
        self.reader.put(tenant, VALIDATING_BINDINGS, {"metadata": {"name": "b"}, "spec": bound})

    def mutation(self, **spec: Any) -> None:
        body = {
            "failurePolicy": "Fail",
            "reinvocationPolicy": "Never",
            "matchConstraints": {"resourceRules": [RULE]},
            **spec,
        }
        self.reader.put(A, MUTATING, {"metadata": {"name": "m"}, "spec": body})
        self.reader.put(A, MUTATING_BINDINGS, {"metadata": {"name": "mb"}, "spec": {"policyName": "m"}})


@pytest.fixture
def world() -> World:
    return World()


def write(
    obj: Object | None = None,
    old: Object | None = None,
    *,
    tenant: TenantId = A,
    kind: Kind | None = None,
    operation: Operation = Operation.CREATE,
    **more: Any,
) -> Attributes:
    if obj is None and operation is not Operation.DELETE:
        obj = deployment()
    whole = obj or old or {}
    return Attributes(
        operation=operation,
        kind=kind or kind_of("deployments", "apps"),
        tenant=tenant,
        namespace=whole.get("metadata", {}).get("namespace", ""),
        name=whole.get("metadata", {}).get("name", ""),
        obj=obj,
        old=old,
        identity=Identity(tenant, "eve", ("devs",), uid="7"),
        **more,
    )


async def refusal(world: World, attributes: Attributes) -> ApiError:
    with pytest.raises(ApiError) as caught:
        await world.validating.validate(attributes)
    return caught.value


# Verdicts


async def test_a_failed_validation_denies_in_kubernetes_words(world: World) -> None:
    world.policy({"expression": "object.spec.replicas <= 2", "message": "too many replicas"})
    error = await refusal(world, write())
    message = "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: too many replicas"
    assert error.message == f'deployments.apps "web" is forbidden: {message}'
    assert isinstance(error, Invalid)
    assert error.code == 422
    assert error.details is not None
    assert (error.details.name, error.details.group, error.details.kind) == ("web", "apps", "deployments")
    assert [cause.message for cause in error.details.causes] == [message]
    await world.validating.validate(write(deployment(2)))


@pytest.mark.parametrize(
    ("validation", "message", "kind"),
    [
        (
            {"expression": "object.spec.replicas <= 2"},
            "failed expression: object.spec.replicas <= 2",
            Invalid,
        ),
        ({"expression": "false", "reason": "Forbidden", "message": "no"}, "no", Forbidden),
        ({"expression": "false", "reason": "RequestEntityTooLarge", "message": "no"}, "no", TooLarge),
        (
            {"expression": "false", "messageExpression": "'replicas: ' + string(object.spec.replicas)"},
            "replicas: 3",
            Invalid,
        ),
        (
            {"expression": "false", "messageExpression": "object.nope", "message": "fallback"},
            "fallback",
            Invalid,
        ),
        ({"expression": "false", "messageExpression": "'a\\nb'", "message": "fallback"}, "fallback", Invalid),
        (
            {"expression": "object.nope == 1"},
            "expression 'object.nope == 1' resulted in error: no such key: nope",
            Invalid,
        ),
    ],
)
async def test_the_message_and_reason_of_a_denial(
    world: World, validation: Object, message: str, kind: type[ApiError]
) -> None:
    world.policy(validation)
    error = await refusal(world, write())
    assert error.message.endswith(f"denied request: {message}")
    assert type(error) is kind


@pytest.mark.parametrize(
    "expression",
    [
        "object.metadata.name == 'web' && oldObject == null",
        "request.operation == 'CREATE' && request.userInfo.username == 'eve' && 'devs' in request.userInfo.groups",
        "request.resource.resource == 'deployments' && request.kind.kind == 'Deployment' && request.resource.group == 'apps'",
        "request.namespace == 'shop' && request.name == 'web' && !request.dryRun && !has(request.subResource)",
        "namespaceObject.metadata.labels['env'] == 'prod' && namespaceObject.status.phase == 'Active'",
        "object.spec.template.spec.containers.all(c, c.image.startsWith('nginx:'))",
        "!has(object.spec.paused) && object.?spec.?paused.orValue(false) == false",
        "!authorizer.group('').resource('secrets').namespace('shop').check('get').allowed()",
        "!authorizer.requestResource.check('delete').allowed()",
        "authorizer.serviceAccount('shop', 'bot').path('/metrics').check('get').allowed() == false",
    ],
)
async def test_variables_of_expressions(world: World, expression: str) -> None:
    world.policy(expression)
    await world.validating.validate(write())


async def test_an_update_sees_both_objects(world: World) -> None:
    world.policy("object.spec.replicas >= oldObject.spec.replicas")
    await world.validating.validate(write(deployment(3), deployment(2), operation=Operation.UPDATE))
    await refusal(world, write(deployment(1), deployment(2), operation=Operation.UPDATE))


async def test_a_delete_sees_the_old_object(world: World) -> None:
    world.policy("object == null && oldObject.metadata.name != 'web'")
    await refusal(world, write(None, deployment(), operation=Operation.DELETE))


async def test_roles_answer_the_authorizer(world: World) -> None:
    rbac = "rbac.authorization.k8s.io"
    rules = [{"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"]}]
    world.reader.put(A, GroupResource(rbac, "clusterroles"), {"metadata": {"name": "r"}, "rules": rules})
    subject = {"kind": "User", "apiGroup": rbac, "name": "eve"}
    reference = {"kind": "ClusterRole", "apiGroup": rbac, "name": "r"}
    binding = {"metadata": {"name": "rb"}, "subjects": [subject], "roleRef": reference}
    world.reader.put(A, GroupResource(rbac, "clusterrolebindings"), binding)
    world.policy(
        "authorizer.group('').resource('secrets').namespace('shop').check('get').allowed() && "
        "!authorizer.group('').resource('secrets').namespace('shop').check('create').allowed()"
    )
    await world.validating.validate(write())


async def test_variables_are_evaluated_when_they_are_read(world: World) -> None:
    variables = [
        {"name": "images", "expression": "object.spec.template.spec.containers.map(c, c.image)"},
        {"name": "count", "expression": "variables.images.size()"},
        {"name": "broken", "expression": "object.nope"},
    ]
    world.policy("variables.count == 1 && variables.images == ['nginx:1']", variables=variables)
    await world.validating.validate(write())
    world.policy("variables.broken == 1", variables=variables)
    error = await refusal(world, write())
    assert "composited variable fails to evaluate" in error.message


async def test_actions(world: World) -> None:
    world.policy({"expression": "false", "message": "no"}, actions=("Warn", "Audit"))
    attributes = write()
    await world.validating.validate(attributes)
    assert attributes.warnings == ["Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': no"]
    assert attributes.annotations[AUDIT_KEY] == (
        '[{"message":"no","policy":"p","binding":"b","expressionIndex":0,"validationActions":["Warn","Audit"]}]'
    )


async def test_audit_annotations(world: World) -> None:
    annotations = [
        {"key": "replicas", "valueExpression": "'has ' + string(object.spec.replicas)"},
        {"key": "none", "valueExpression": "null"},
        {"key": "empty", "valueExpression": "' '"},
    ]
    world.policy(auditAnnotations=annotations)
    attributes = write()
    await world.validating.validate(attributes)
    assert attributes.annotations == {"p/replicas": "has 3"}


async def test_errors_are_ignored_where_the_policy_says_so_but_failures_are_not(world: World) -> None:
    world.policy("object.nope == 1", failurePolicy="Ignore")
    await world.validating.validate(write())
    world.policy("false", failurePolicy="Ignore")
    await refusal(world, write())


async def test_a_costly_expression_denies_quickly(world: World) -> None:
    world.policy("object.data.all(a, object.data.all(b, object.data.all(c, true)))")
    started = time.process_time()
    error = await refusal(world, write({**deployment(), "data": {str(n): "" for n in range(1_000)}}))
    assert "running out of cost budget" in error.message
    assert time.process_time() - started < 20


@pytest.mark.parametrize("failure_policy", ["Fail", "Ignore"])
async def test_many_parameters_of_a_costly_policy_cost_no_more_than_one_request_may(
    world: World, failure_policy: str
) -> None:
    """A thousand parameter objects, each worth a tenth of a second, once stopped the server for 80 seconds."""
    for number in range(1_000):
        world.reader.put(A, CONFIG_MAPS, {"metadata": {"name": f"c{number}", "namespace": "shop"}})
    world.policy(
        "object.data.all(a, object.data.all(b, a == a && b == b))",
        paramKind=PARAM_KIND,
        binding={"paramRef": {"selector": {}, "parameterNotFoundAction": "Allow"}},
        failurePolicy=failure_policy,
    )
    attributes = write({**deployment(), "data": {str(n): "" for n in range(100)}})
    began, turns = time.process_time(), 0
    judged = asyncio.ensure_future(world.validating.validate(attributes))
    while not judged.done():
        await asyncio.sleep(0)
        turns += 1
    assert time.process_time() - began < 20
    assert turns > 10, "others have their turns meanwhile"
    error = judged.exception()
    assert (error is None) == (failure_policy == "Ignore")
    assert error is None or "running out of cost budget" in str(error)


# Whom it concerns


@pytest.mark.parametrize(
    ("match", "concerned"),
    [
        ({"resourceRules": [{**RULE, "resources": ["deployments"], "apiGroups": ["apps"]}]}, True),
        ({"resourceRules": [{**RULE, "resources": ["deployments"], "apiGroups": [""]}]}, False),
        ({"resourceRules": [{**RULE, "resources": ["pods"]}]}, False),
        ({"resourceRules": [{**RULE, "resources": ["deployments/scale"]}]}, False),
        ({"resourceRules": [{**RULE, "operations": ["UPDATE"]}]}, False),
        ({"resourceRules": [{**RULE, "operations": ["CREATE"]}]}, True),
        ({"resourceRules": [{**RULE, "scope": "Cluster"}]}, False),
        ({"resourceRules": [{**RULE, "scope": "Namespaced"}]}, True),
        ({"resourceRules": [{**RULE, "resourceNames": ["web"]}]}, True),
        ({"resourceRules": [{**RULE, "resourceNames": ["db"]}]}, False),
        ({"excludeResourceRules": [{**RULE, "resources": ["deployments"]}]}, False),
        ({"namespaceSelector": {"matchLabels": {"env": "prod"}}}, True),
        ({"namespaceSelector": {"matchLabels": {"env": "dev"}}}, False),
        ({"objectSelector": {"matchLabels": {"app": "web"}}}, True),
        ({"objectSelector": {"matchLabels": {"app": "db"}}}, False),
    ],
)
async def test_matching(world: World, match: Object, concerned: bool) -> None:
    for place in ("match", "binding"):
        given = {"match": match} if place == "match" else {"binding": {"matchResources": match}}
        world.policy("false", **given)
        attributes = write(deployment(app="web"))
        if concerned:
            await refusal(world, attributes)
        else:
            await world.validating.validate(attributes)


@pytest.mark.parametrize(("policy", "concerned"), [("Equivalent", True), ("Exact", False)])
async def test_equivalent_versions_match_unless_the_policy_is_exact(
    world: World, policy: str, concerned: bool
) -> None:
    rule = {
        **RULE,
        "apiGroups": ["autoscaling"],
        "apiVersions": ["v1"],
        "resources": ["horizontalpodautoscalers"],
    }
    world.policy(
        "object.apiVersion == 'autoscaling/v2'", match={"matchPolicy": policy, "resourceRules": [rule]}
    )
    obj = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "h", "namespace": "shop"},
        "spec": {"maxReplicas": 3, "scaleTargetRef": {"kind": "Deployment", "name": "web"}},
    }
    attributes = write(obj, kind=kind_of("horizontalpodautoscalers", "autoscaling", "v2"))
    if concerned:
        await refusal(world, attributes)  # it is shown as the version that the rule names
    else:
        await world.validating.validate(attributes)


async def test_a_policy_without_a_binding_does_nothing(world: World) -> None:
    world.policy("false")
    world.reader.remove(A, VALIDATING_BINDINGS, "", "b")
    await world.validating.validate(write())


async def test_policies_hold_in_their_own_tenant_only(world: World) -> None:
    world.policy("false", tenant=A)
    await refusal(world, write(tenant=A))
    await world.validating.validate(write(tenant=B))
    await world.validating.validate(write(tenant=SYSTEM))


async def test_ring0s_policies_hold_in_ring0_only(world: World) -> None:
    world.policy("false", tenant=SYSTEM)
    await refusal(world, write(tenant=SYSTEM))
    await world.validating.validate(write(tenant=A))


async def test_a_changed_policy_takes_effect_immediately(world: World) -> None:
    world.policy("false")
    await refusal(world, write())
    world.policy("true")
    await world.validating.validate(write())


async def test_conditions_narrow_a_policy(world: World) -> None:
    conditions = [{"name": "not-eve", "expression": "request.userInfo.username != 'eve'"}]
    world.policy("false", matchConditions=conditions)
    await world.validating.validate(write())
    world.policy("false", matchConditions=[{"name": "x", "expression": "true"}])
    await refusal(world, write())
    broken = [{"name": "a", "expression": "object.nope == 1"}, {"name": "b", "expression": "false"}]
    world.policy("false", matchConditions=broken)
    await world.validating.validate(write())
    world.policy("true", matchConditions=broken[:1])
    assert "no such key: nope" in (await refusal(world, write())).message


# Parameters

PARAM_KIND = {"apiVersion": "v1", "kind": "ConfigMap"}


def limits(name: str, most: str, **labels: str) -> Object:
    return {"metadata": {"name": name, "namespace": "shop", "labels": labels}, "data": {"most": most}}


async def test_params_by_name(world: World) -> None:
    world.reader.put(A, CONFIG_MAPS, limits("l", "2"))
    reference = {"name": "l", "parameterNotFoundAction": "Deny"}
    world.policy(
        "object.spec.replicas <= int(params.data.most)", paramKind=PARAM_KIND, binding={"paramRef": reference}
    )
    await refusal(world, write())
    await world.validating.validate(write(deployment(2)))


async def test_every_selected_param_must_be_met(world: World) -> None:
    world.reader.put(A, CONFIG_MAPS, limits("l", "9", kind="limit"))
    reference = {"selector": {"matchLabels": {"kind": "limit"}}, "parameterNotFoundAction": "Deny"}
    world.policy(
        "object.spec.replicas <= int(params.data.most)", paramKind=PARAM_KIND, binding={"paramRef": reference}
    )
    await world.validating.validate(write())
    world.reader.put(A, CONFIG_MAPS, limits("m", "1", kind="limit"))
    await refusal(world, write())


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            {
                "paramKind": PARAM_KIND,
                "binding": {"paramRef": {"name": "l", "parameterNotFoundAction": "Deny"}},
            },
            "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction",
        ),
        (
            {"paramKind": {"apiVersion": "example.com/v1", "kind": "Nope"}},
            "failed to configure binding: failed to find resource referenced by paramKind: 'example.com/v1, Kind=Nope'",
        ),
        (
            {
                "paramKind": {"apiVersion": "v1", "kind": "Namespace"},
                "binding": {"paramRef": {"name": "x", "namespace": "shop"}},
            },
            "failed to configure binding: paramRef.namespace must not be provided for a cluster-scoped `paramKind`",
        ),
    ],
)
async def test_bad_params(world: World, spec: Any, message: str) -> None:
    world.policy("true", **spec)
    assert (await refusal(world, write())).message.endswith(f"denied request: {message}")
    world.policy("true", failurePolicy="Ignore", **spec)
    await world.validating.validate(write())


async def test_missing_params_may_be_allowed(world: World) -> None:
    reference = {"name": "l", "parameterNotFoundAction": "Allow"}
    world.policy("false", paramKind=PARAM_KIND, binding={"paramRef": reference})
    await world.validating.validate(write())


# Policies themselves


def policy_write(
    spec: Object, old: Object | None = None, resource: str = "validatingadmissionpolicies"
) -> Attributes:
    obj = {"metadata": {"name": "p"}, "spec": spec}
    known = kind_of("validatingadmissionpolicies", "admissionregistration.k8s.io")
    kind = replace(known, resource=resource, kind="Policy")
    return write(obj, old and {"metadata": {"name": "p"}, "spec": old}, kind=kind)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            {"validations": [{"expression": "objekt.x"}]},
            "spec.validations[0].expression: Invalid value: \"objekt.x\": compilation failed: ERROR: <input>:1:1: undeclared reference to 'objekt'",
        ),
        (
            {"validations": [{"expression": "'x'"}]},
            "spec.validations[0].expression: Invalid value: \"'x'\": must evaluate to bool but got string",
        ),
        (
            {"validations": [{"expression": "true", "messageExpression": "1"}]},
            'spec.validations[0].messageExpression: Invalid value: "1": must evaluate to string but got int',
        ),
        ({"validations": [{"expression": "request.nope == ''"}]}, "undefined field 'nope'"),
        ({"validations": [{"expression": "params.x == 1"}]}, "undeclared reference to 'params'"),
        ({"validations": [{"expression": "variables.x == 1"}]}, "undefined field 'x'"),
        (
            {"variables": [{"name": "v", "expression": "1 +"}], "validations": [{"expression": "true"}]},
            "spec.variables[0].expression: Invalid value",
        ),
        (
            {"matchConditions": [{"name": "c", "expression": "1"}], "validations": []},
            'spec.matchConditions[0].expression: Invalid value: "1": must evaluate to bool but got int',
        ),
        (
            {"auditAnnotations": [{"key": "k", "valueExpression": "1"}]},
            "must evaluate to one of [string null] but got int",
        ),
        (
            {"validations": [{"expression": "true || " * 1_000 + "true"} for _ in range(20)]},
            "expressions must not have more than 100000 characters together",
        ),
    ],
)
async def test_expressions_are_compiled_when_a_policy_is_written(
    world: World, spec: Object, message: str
) -> None:
    error = await refusal(world, policy_write(spec))
    assert isinstance(error, Invalid)
    assert message in error.message
    await world.validating.validate(policy_write(spec, spec))  # what is stored already may be touched


async def test_policies_do_not_hold_for_policies(world: World) -> None:
    world.policy("false")
    await world.validating.validate(policy_write({"validations": [{"expression": "true"}]}))
    bindings = GroupResource("admissionregistration.k8s.io", "validatingadmissionpolicybindings")
    assert not world.validating.handles(Operation.CREATE, bindings, "")
    assert not world.mutating.handles(Operation.CREATE, bindings, "")


# Mutations


def json_patch(expression: str) -> list[Object]:
    return [{"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}]


def applied(expression: str) -> list[Object]:
    return [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}]


@pytest.mark.parametrize(
    ("mutations", "path", "value"),
    [
        (
            json_patch("[JSONPatch{op: 'replace', path: '/spec/replicas', value: object.spec.replicas + 1}]"),
            ("spec", "replicas"),
            4,
        ),
        (
            json_patch(
                "[JSONPatch{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey('a/b'), value: 'x'}]"
            ),
            ("metadata", "labels"),
            {"a/b": "x"},
        ),
        (
            json_patch(
                "[JSONPatch{op: 'test', path: '/spec/replicas', value: 99}, JSONPatch{op: 'remove', path: '/spec/replicas'}]"
            ),
            ("spec", "replicas"),
            3,
        ),
        (
            json_patch("object.spec.replicas > 9 ? [JSONPatch{op: 'remove', path: '/spec/replicas'}] : []"),
            ("spec", "replicas"),
            3,
        ),
        (
            applied("Object{metadata: Object.metadata{labels: {'team': 'x'}}}"),
            ("metadata", "labels"),
            {"team": "x"},
        ),
        (applied("Object{spec: Object.spec{replicas: 7, paused: true}}"), ("spec", "replicas"), 7),
        (
            [
                *applied("Object{spec: Object.spec{replicas: 5}}"),
                *applied("Object{spec: Object.spec{replicas: object.spec.replicas * 2}}"),
            ],
            ("spec", "replicas"),
            10,
        ),
    ],
)
async def test_mutations(world: World, mutations: list[Object], path: tuple[str, ...], value: Any) -> None:
    world.mutation(mutations=mutations)
    attributes = write()
    await world.mutating.admit(attributes)
    found: Any = attributes.obj
    for step in path:
        found = found[step]
    assert found == value


async def test_applied_configurations_merge_lists_by_their_keys(world: World) -> None:
    containers = "[Object.spec.template.spec.containers{name: 'side', image: 'proxy'}]"
    expression = f"Object{{spec: Object.spec{{template: Object.spec.template{{spec: Object.spec.template.spec{{containers: {containers}}}}}}}}}"
    world.mutation(mutations=applied(expression))
    attributes = write()
    await world.mutating.admit(attributes)
    assert attributes.obj is not None
    names = [each["name"] for each in attributes.obj["spec"]["template"]["spec"]["containers"]]
    assert sorted(names) == ["c", "side"]


async def test_a_change_is_seen_by_the_others_once(world: World) -> None:
    world.mutation(
        mutations=json_patch(
            "[JSONPatch{op: 'replace', path: '/spec/replicas', value: object.spec.replicas + 1}]"
        )
    )
    attributes = write()
    await world.mutating.admit(attributes)
    assert attributes.reinvoke
    again = write(copy.deepcopy(attributes.obj), is_reinvoked=True)
    await world.mutating.admit(again)
    assert again.obj is not None and again.obj["spec"]["replicas"] == 4
    world.mutation(
        reinvocationPolicy="IfNeeded",
        mutations=json_patch("[JSONPatch{op: 'replace', path: '/spec/replicas', value: 9}]"),
    )
    await world.mutating.admit(again)
    assert again.obj["spec"]["replicas"] == 9
    assert not again.reinvoke


async def test_a_mutation_that_fails_denies_unless_errors_are_ignored(world: World) -> None:
    broken = json_patch("[JSONPatch{op: 'remove', path: '/spec/nope'}]")
    world.mutation(mutations=broken)
    with pytest.raises(Invalid) as caught:
        await world.mutating.admit(write())
    assert "policy 'm' with binding 'mb' denied request: " in caught.value.message
    world.mutation(mutations=broken, failurePolicy="Ignore")
    attributes = write()
    await world.mutating.admit(attributes)
    assert attributes.obj == deployment()


@pytest.mark.parametrize(
    "expression", ["[1]", "Object{}", "[JSONPatch{op: 1}]", "[JSONPatch{nope: 'x'}]", "[]"]
)
async def test_mutations_must_be_lists_of_patches(world: World, expression: str) -> None:
    error = await refusal(
        world, policy_write({"mutations": json_patch(expression)}, resource="mutatingadmissionpolicies")
    )
    assert "spec.mutations[0].jsonPatch.expression" in error.message


# Cost


def test_cel_is_not_loaded_for_tenants_without_policies() -> None:
    import subprocess

    script = (
        "import asyncio, sys; from alcove.testing.memory_reader import MemoryReader;"
        "from alcove.apiserver.admission.policy import ValidatingPolicies;"
        "from alcove.apiserver.crds.kinds import CustomKinds;"
        # Its reserved words and the budget of evaluations are used elsewhere too, and weigh nothing.
        "loaded = {name for name in sys.modules if name.startswith('alcove.api.cel.') or name == 're2'};"
        "used = {'alcove.api.cel.' + name for name in ('budget', 'errors', 'reserved_words')};"
        "assert loaded <= used, loaded - used"
    )
    subprocess.run([sys.executable, "-c", script], check=True)

"""Webhook configurations and admission policies: defaults, rules, shapes."""

import pytest

from alcove.api.kinds.admissionregistration import STRATEGIES
from alcove.api.objects import Object


def messages(resource: str, obj: Object) -> list[str]:
    STRATEGIES[resource].default(obj)
    return [str(error) for error in STRATEGIES[resource].validate(obj)]


def rule(**fields: object) -> Object:
    given = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
    return {**given, **fields}


def webhook(**fields: object) -> Object:
    return {
        "name": "a.example.com",
        "clientConfig": {"url": "https://a.example.com"},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "rules": [rule()],
        **fields,
    }


WEBHOOKS: list[tuple[Object, list[str]]] = [
    (webhook(), []),
    (webhook(rules=[]), []),
    (webhook(name=""), ["webhooks[0].name: Required value"]),
    (webhook(name="a.b"), [
        'webhooks[0].name: Invalid value: "a.b": should be a domain with at least three segments separated by dots']),
    (webhook(sideEffects=None) | {"sideEffects": "Some"}, [
        'webhooks[0].sideEffects: Unsupported value: "Some": supported values: "None", "NoneOnDryRun"']),
    ({key: value for key, value in webhook().items() if key != "sideEffects"}, [
        "webhooks[0].sideEffects: Required value: must specify one of None, NoneOnDryRun"]),
    (webhook(timeoutSeconds=0), [
        "webhooks[0].timeoutSeconds: Invalid value: 0: the timeout value must be between 1 and 30 seconds"]),
    (webhook(timeoutSeconds=31), [
        "webhooks[0].timeoutSeconds: Invalid value: 31: the timeout value must be between 1 and 30 seconds"]),
    (webhook(failurePolicy="Perhaps", matchPolicy="Some"), [
        'webhooks[0].failurePolicy: Unsupported value: "Perhaps": supported values: "Fail", "Ignore"',
        'webhooks[0].matchPolicy: Unsupported value: "Some": supported values: "Equivalent", "Exact"']),
    (webhook(admissionReviewVersions=[]), [
        "webhooks[0].admissionReviewVersions: Required value: must specify one of v1, v1beta1"]),
    (webhook(admissionReviewVersions=["v2", "v2"]), [
        'webhooks[0].admissionReviewVersions[1]: Invalid value: "v2": duplicate version',
        'webhooks[0].admissionReviewVersions: Invalid value: ["v2","v2"]: must include at least one of v1, v1beta1']),
    (webhook(clientConfig={}), [
        "webhooks[0].clientConfig: Required value: exactly one of url or service is required"]),
    (webhook(matchConditions=[{"name": "x", "expression": "true"}, {"name": "x", "expression": " "}]), [
        "webhooks[0].matchConditions[1].expression: Required value",
        'webhooks[0].matchConditions[1].name: Duplicate value: "x"']),
    (webhook(matchConditions=[{"name": str(n), "expression": "true"} for n in range(65)]), [
        "webhooks[0].matchConditions: Too many: 65: must have at most 64 items"]),
    (webhook(namespaceSelector={"matchExpressions": [{"key": "a", "operator": "In"}]}), [
        "webhooks[0].namespaceSelector.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'"]),
]  # fmt: skip


@pytest.mark.parametrize("resource", ["validatingwebhookconfigurations", "mutatingwebhookconfigurations"])
@pytest.mark.parametrize(("hook", "expected"), WEBHOOKS)
def test_webhook(resource: str, hook: Object, expected: list[str]) -> None:
    assert messages(resource, {"webhooks": [dict(hook)]}) == expected


RULES: list[tuple[Object, list[str]]] = [
    (rule(operations=["*"], apiGroups=["*"], apiVersions=["*"], resources=["*/*"]), []),
    (rule(resources=["pods", "pods/status", "*/scale"]), []),
    (rule(operations=["*", "CREATE"], apiGroups=["*", "apps"], apiVersions=["*", "v1"]), [
        "operations: Invalid value: [\"*\",\"CREATE\"]: if '*' is present, must not specify other operations",
        "apiGroups: Invalid value: [\"*\",\"apps\"]: if '*' is present, must not specify other API groups",
        "apiVersions: Invalid value: [\"*\",\"v1\"]: if '*' is present, must not specify other API versions"]),
    (rule(operations=["READ"]), [
        'operations[0]: Unsupported value: "READ": supported values: "*", "CONNECT", "CREATE", "DELETE", "UPDATE"']),
    (rule(operations=[], apiGroups=[], apiVersions=[], resources=[]), [
        "operations: Required value", "apiGroups: Required value", "apiVersions: Required value",
        "resources: Required value"]),
    (rule(apiVersions=[""], resources=[""]), ["apiVersions[0]: Required value", "resources[0]: Required value"]),
    (rule(resources=["*/*", "pods"]), [
        "resources: Invalid value: [\"*/*\",\"pods\"]: if '*/*' is present, must not specify other resources"]),
    (rule(resources=["*", "pods"]), [
        "resources: Invalid value: [\"*\",\"pods\"]: if '*' is present, must not specify other resources without subresources"]),
    (rule(resources=["pods/*", "pods/status"]), [
        "resources[1]: Invalid value: \"pods/status\": if 'pods/*' is present, must not specify pods/status"]),
    (rule(resources=["*/status", "pods/status"]), [
        "resources[1]: Invalid value: \"pods/status\": if '*/status' is present, must not specify pods/status"]),
    (rule(scope="World"), ['scope: Unsupported value: "World": supported values: "*", "Cluster", "Namespaced"']),
]  # fmt: skip


@pytest.mark.parametrize(("given", "expected"), RULES)
def test_rule(given: Object, expected: list[str]) -> None:
    errors = messages("validatingwebhookconfigurations", {"webhooks": [webhook(rules=[given])]})
    assert errors == [f"webhooks[0].rules[0].{error}" for error in expected]


def test_webhook_names_differ() -> None:
    assert messages("validatingwebhookconfigurations", {"webhooks": [webhook(), webhook()]}) == [
        'webhooks[1].name: Duplicate value: "a.example.com"'
    ]


def test_webhook_defaults() -> None:
    bare = {"clientConfig": {"service": {"name": "s", "namespace": "n"}}, "rules": [rule()]}
    configuration: Object = {"webhooks": [bare]}
    STRATEGIES["mutatingwebhookconfigurations"].default(configuration)
    assert configuration["webhooks"][0] == {
        "clientConfig": {"service": {"name": "s", "namespace": "n", "port": 443}},
        "rules": [rule(scope="*")],
        "failurePolicy": "Fail",
        "matchPolicy": "Equivalent",
        "namespaceSelector": {},
        "objectSelector": {},
        "timeoutSeconds": 10,
        "reinvocationPolicy": "Never",
    }


def policy(**spec: object) -> Object:
    given: Object = {
        "matchConstraints": {"resourceRules": [rule()]},
        "validations": [{"expression": "true"}],
        **spec,
    }
    return {"metadata": {"name": "p"}, "spec": given}


POLICIES: list[tuple[Object, list[str]]] = [
    (policy(), []),
    (policy(paramKind={"apiVersion": "rules.example.com/v1", "kind": "ReplicaLimit"}), []),
    (policy(failurePolicy="Perhaps"), [
        'spec.failurePolicy: Unsupported value: "Perhaps": supported values: "Fail", "Ignore"']),
    (policy(paramKind={}), ["spec.paramKind.apiVersion: Required value", "spec.paramKind.kind: Required value"]),
    (policy(paramKind={"apiVersion": "a/b/c", "kind": "K"}), [
        'spec.paramKind.apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c']),
    (policy(paramKind={"apiVersion": "a/", "kind": "K"}), [
        'spec.paramKind.apiVersion: Invalid value: "a/": version must be specified']),
    (policy(matchConstraints=None), ["spec.matchConstraints: Required value"]),
    (policy(matchConstraints={}), ["spec.matchConstraints.resourceRules: Required value"]),
    (policy(matchConstraints={"resourceRules": [rule(resourceNames=["a", "a", "b/c"])]}), [
        'spec.matchConstraints.resourceRules[0].resourceNames[1]: Duplicate value: "a"',
        "spec.matchConstraints.resourceRules[0].resourceNames[2]: Invalid value: \"b/c\": may not contain '/'"]),
    (policy(validations=[]), [
        "spec.validations: Required value: validations or auditAnnotations must contain at least one item",
        "spec.auditAnnotations: Required value: validations or auditAnnotations must contain at least one item"]),
    (policy(validations=[{}]), ["spec.validations[0].expression: Required value: expression is not specified"]),
    (policy(validations=[{"expression": "true", "message": "a\nb", "messageExpression": " ", "reason": "Mood"}]), [
        'spec.validations[0].messageExpression: Invalid value: " ": must be non-empty if specified',
        'spec.validations[0].message: Invalid value: "a\\nb": must not contain line breaks',
        'spec.validations[0].reason: Unsupported value: "Mood": supported values: "Forbidden", "Invalid", "RequestEntityTooLarge"']),
    (policy(variables=[{"name": "for", "expression": "1"}, {"name": "ok", "expression": ""}]), [
        'spec.variables[0].name: Invalid value: "for": must be a valid CEL identifier',
        "spec.variables[1].expression: Required value: expression is not specified"]),
    (policy(auditAnnotations=[{"key": "k", "valueExpression": "x" * 5121}]), [
        "spec.auditAnnotations[0].valueExpression: Required value: must not exceed 5120 bytes in length"]),
    (policy(auditAnnotations=[{"key": "k", "valueExpression": "'v'"}, {"key": "k"}]), [
        "spec.auditAnnotations[1].valueExpression: Required value: valueExpression is not specified",
        'spec.auditAnnotations[1].key: Duplicate value: "k"']),
]  # fmt: skip


@pytest.mark.parametrize(("obj", "expected"), POLICIES)
def test_validating_policy(obj: Object, expected: list[str]) -> None:
    assert messages("validatingadmissionpolicies", obj) == expected


def test_policy_defaults() -> None:
    obj = policy()
    STRATEGIES["validatingadmissionpolicies"].default(obj)
    assert obj["spec"]["failurePolicy"] == "Fail"
    assert obj["spec"]["matchConstraints"] == {
        "matchPolicy": "Equivalent",
        "namespaceSelector": {},
        "objectSelector": {},
        "resourceRules": [rule(scope="*")],
    }


def test_audit_annotations_are_bounded() -> None:
    many = [{"key": f"k{n}", "valueExpression": "'v'"} for n in range(21)]
    [error] = messages("validatingadmissionpolicies", policy(auditAnnotations=many))
    assert error.endswith("must not have more than 20 auditAnnotations")


def test_policy_status() -> None:
    status = {"typeChecking": {"expressionWarnings": [{"warning": "w"}]}}
    errors = STRATEGIES["validatingadmissionpolicies"].validate_status({"status": status}, {})
    assert [str(error) for error in errors] == [
        "status.typeChecking.expressionWarnings[0].fieldRef: Required value"
    ]


def mutating(*mutations: Object, **spec: object) -> Object:
    return policy(mutations=list(mutations), reinvocationPolicy="Never", **spec)


PATCH = {"patchType": "JSONPatch", "jsonPatch": {"expression": "[]"}}
MUTATIONS: list[tuple[Object, list[str]]] = [
    (mutating(PATCH), []),
    (mutating({"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "Object{}"}}), []),
    (mutating(), ["spec.mutations: Required value: mutations must contain at least one item"]),
    (mutating(PATCH) | {"spec": {**mutating(PATCH)["spec"], "reinvocationPolicy": ""}}, [
        "spec.reinvocationPolicy: Required value"]),
    (mutating({}), ["spec.mutations[0].patchType: Required value"]),
    (mutating({"patchType": "Magic"}), [
        'spec.mutations[0].patchType: Unsupported value: "Magic": supported values: "ApplyConfiguration", "JSONPatch"']),
    (mutating({"patchType": "ApplyConfiguration", "jsonPatch": {}}), [
        "spec.mutations[0].applyConfiguration: Required value: must be specified when patchType is ApplyConfiguration",
        'spec.mutations[0].jsonPatch: Invalid value: "{jsonPatch}": must not be specified when patchType is ApplyConfiguration']),
    (mutating(PATCH, matchConstraints={"resourceRules": [rule(operations=["DELETE"])]}), [
        'spec.matchConstraints.resourceRules.operations: Unsupported value: "DELETE": supported values: "*", "CONNECT", "CREATE", "UPDATE"']),
]  # fmt: skip


@pytest.mark.parametrize(("obj", "expected"), MUTATIONS)
def test_mutating_policy(obj: Object, expected: list[str]) -> None:
    assert messages("mutatingadmissionpolicies", obj) == expected


def binding(**spec: object) -> Object:
    return {"spec": {"policyName": "p", "validationActions": ["Deny"], **spec}}


BINDINGS: list[tuple[Object, list[str]]] = [
    (binding(), []),
    (binding(paramRef={"name": "x", "parameterNotFoundAction": "Deny"}, matchResources={}), []),
    (binding(policyName=""), ["spec.policyName: Required value"]),
    (binding(validationActions=[]), [
        "spec.validationActions: Required value: at least one validation action is required"]),
    (binding(validationActions=["Deny", "Warn", "Deny", "Shout"]), [
        'spec.validationActions[2]: Duplicate value: "Deny"',
        'spec.validationActions[3]: Unsupported value: "Shout": supported values: "Audit", "Deny", "Warn"',
        'spec.validationActions: Invalid value: ["Deny","Warn","Deny","Shout"]: must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)']),
    (binding(paramRef={}), [
        "spec.paramRef: Required value: one of name or selector must be specified",
        "spec.paramRef.parameterNotFoundAction: Required value"]),
    (binding(paramRef={"name": "x", "selector": {}, "parameterNotFoundAction": "Guess"}), [
        "spec.paramRef.name: Forbidden: name and selector are mutually exclusive",
        "spec.paramRef.selector: Forbidden: name and selector are mutually exclusive",
        'spec.paramRef.parameterNotFoundAction: Unsupported value: "Guess": supported values: "Deny", "Allow"']),
]  # fmt: skip


@pytest.mark.parametrize(("obj", "expected"), BINDINGS)
def test_validating_binding(obj: Object, expected: list[str]) -> None:
    assert messages("validatingadmissionpolicybindings", obj) == expected


def test_mutating_binding() -> None:
    assert not messages("mutatingadmissionpolicybindings", {"spec": {"policyName": "p"}})
    wrong = {"spec": {"policyName": "p", "matchResources": {"resourceRules": [rule(operations=["DELETE"])]}}}
    assert messages("mutatingadmissionpolicybindings", wrong) == [
        'spec.matchResources.resourceRules.operations: Unsupported value: "DELETE": supported values: "*", "CONNECT", "CREATE", "UPDATE"'
    ]

"""Access reviews: what a review must ask, and must not."""

import pytest

from alcove.api.errors import BadRequest
from alcove.api.kinds.authorization import STRATEGIES
from alcove.api.objects import Object

PODS = {"verb": "get", "resource": "pods", "namespace": "n"}
URL = {"verb": "get", "path": "/healthz"}
CASES: list[tuple[str, Object, list[str]]] = [
    ("subjectaccessreviews", {"spec": {"user": "u", "resourceAttributes": PODS}}, []),
    ("subjectaccessreviews", {"spec": {"groups": ["g"], "nonResourceAttributes": URL}}, []),
    ("subjectaccessreviews", {"spec": {}}, [
        "spec.resourceAttributes: Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must be specified",
        'spec.user: Invalid value: "": at least one of user or group must be specified']),
    ("selfsubjectaccessreviews", {"spec": {"resourceAttributes": PODS}}, []),
    ("selfsubjectaccessreviews", {"spec": {"resourceAttributes": PODS, "nonResourceAttributes": URL}}, [
        'spec.nonResourceAttributes: Invalid value: {"verb":"get","path":"/healthz"}: cannot be specified in combination with resourceAttributes']),
    ("selfsubjectaccessreviews", {"metadata": {"name": "x"}, "spec": {"resourceAttributes": PODS}}, [
        'metadata: Invalid value: {"name":"x"}: must be empty']),
    ("selfsubjectaccessreviews", {"metadata": {"managedFields": [], "tenant": "t"}, "spec": {"resourceAttributes": PODS}}, []),
    ("localsubjectaccessreviews", {"metadata": {"namespace": "n"}, "spec": {"user": "u", "resourceAttributes": PODS}}, []),
    ("localsubjectaccessreviews", {"metadata": {"namespace": "m"}, "spec": {"user": "u", "resourceAttributes": PODS}}, [
        'spec.resourceAttributes.namespace: Invalid value: "n": must match metadata.namespace']),
    ("localsubjectaccessreviews", {"metadata": {"namespace": "m", "name": "x"}, "spec": {"user": "u", "nonResourceAttributes": URL}}, [
        'metadata: Invalid value: {"namespace":"m","name":"x"}: must be empty except for namespace',
        'spec.nonResourceAttributes: Invalid value: {"verb":"get","path":"/healthz"}: disallowed on this kind of request']),
    ("selfsubjectaccessreviews", {"spec": {"resourceAttributes": {**PODS, "labelSelector": {}, "fieldSelector": {
        "rawSelector": "a=b", "requirements": [{"key": "", "operator": "In"}]}}}}, [
        'spec.resourceAttributes.fieldSelector.rawSelector: Invalid value: "a=b": may not specified at the same time as requirements',
        "spec.resourceAttributes.fieldSelector.requirements[0].key: Required value: must be specified",
        "spec.resourceAttributes.fieldSelector.requirements[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
        "spec.resourceAttributes.labelSelector.requirements: Required value: when spec.resourceAttributes.labelSelector is specified, requirements or rawSelector is required"]),
    ("selfsubjectaccessreviews", {"spec": {"resourceAttributes": {**PODS, "labelSelector": {
        "requirements": [{"key": "a", "operator": "Newer"}, {"key": "b", "operator": "Exists", "values": ["c"]}]}}}}, [
        "spec.resourceAttributes.labelSelector.requirements[1].values: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'"]),
    ("selfsubjectrulesreviews", {"spec": {"namespace": "n"}}, []),
]  # fmt: skip


@pytest.mark.parametrize(("resource", "review", "expected"), CASES)
def test_validate(resource: str, review: Object, expected: list[str]) -> None:
    assert [str(error) for error in STRATEGIES[resource].validate(review)] == expected


def test_rules_review_needs_a_namespace() -> None:
    with pytest.raises(BadRequest, match="no namespace on request"):
        STRATEGIES["selfsubjectrulesreviews"].validate({})

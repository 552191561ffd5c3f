"""Objects of a dedicated plane have the types of their kind, and names that can be keys."""

from typing import Any

import orjson
import pytest

from alcove.api.objects import Object
from alcove.client.errors import MalformedResponse
from alcove.client.plane_objects import check_for
from alcove.client.resources import (
    CUSTOM_RESOURCE_DEFINITIONS,
    DEPLOYMENTS,
    NAMESPACES,
    NETWORKS,
    PODS,
    TENANTS,
    Resource,
)
from alcove.testing.hostile_objects import MALFORMED, plain_pod


def obj(resource: Resource, **metadata: Any) -> Object:
    own = {"name": "a", "uid": "u", "tenant": "big", "resourceVersion": "5", **metadata}
    return {"metadata": {"namespace": "default", **own} if resource.namespaced else own, "spec": {}}


@pytest.mark.parametrize(
    "resource", [PODS, DEPLOYMENTS, NAMESPACES, NETWORKS, TENANTS, CUSTOM_RESOURCE_DEFINITIONS]
)
def test_honest_objects_pass(resource: Resource) -> None:
    for metadata_only in (False, True):
        check_for(resource, metadata_only=metadata_only)(obj(resource))


@pytest.mark.parametrize("number", range(len(MALFORMED)))
def test_what_is_no_pod_is_refused(number: int) -> None:
    try:
        value = orjson.loads(MALFORMED[number])
    except orjson.JSONDecodeError:
        return
    if isinstance(value, dict) and number not in (18,):  # One without a spec has no wrong type.
        with pytest.raises(MalformedResponse):
            check_for(PODS, metadata_only=False)(value)


@pytest.mark.parametrize(
    "metadata",
    [
        {"name": "a/b"},
        {"name": ".."},
        {"name": "x" * 300},
        {"name": ""},
        {"namespace": "Default"},
        {"namespace": ""},
        {"uid": ""},
        {"uid": "x" * 1_000},
        {"tenant": 7},
        {"labels": {"a": 1}},
        {"creationTimestamp": "yesterday"},
        {"resourceVersion": "1e9"},
    ],
    ids=str,
)
def test_names_are_names(metadata: Object) -> None:
    for metadata_only in (False, True):
        with pytest.raises(MalformedResponse):
            check_for(PODS, metadata_only=metadata_only)(obj(PODS, **metadata))


def test_fields_of_a_newer_server_stay() -> None:
    """A controller that writes the object back must not remove them."""
    pod = plain_pod("big", 1)
    pod["spec"]["more"] = {"deep": [1]}
    check_for(PODS, metadata_only=False)(pod)
    assert pod["spec"]["more"] == {"deep": [1]}

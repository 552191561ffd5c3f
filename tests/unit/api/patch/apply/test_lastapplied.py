"""From client-side to server-side apply with kubectl."""

import copy
from typing import Any

import orjson
import pytest

from alcove.api.errors import Conflict
from alcove.api.patch import apply as ssa
from alcove.api.patch.apply.lastapplied import ANNOTATION
from alcove.api.schema.node import SchemaNode

NOW = "2024-02-01T00:00:00Z"


def deployment(replicas: int, image: str = "a:1", **labels: str) -> Any:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "labels": labels},
        "spec": {
            "replicas": replicas,
            "template": {"spec": {"containers": [{"name": "app", "image": image}]}},
        },
    }


def client_side(node: SchemaNode, config: Any) -> Any:
    """An object as `kubectl apply` makes it."""
    obj = copy.deepcopy(config)
    obj["metadata"]["annotations"] = {ANNOTATION: orjson.dumps(config).decode()}
    ssa.update_managed_fields(
        None, obj, node=node, manager="kubectl-client-side-apply", api_version="apps/v1", now=NOW
    )
    return obj


def apply(node: SchemaNode, live: Any, config: Any, manager: str = "kubectl", force: bool = False) -> Any:
    return ssa.apply_configuration(
        live, config, node=node, manager=manager, api_version="apps/v1", now=NOW, force=force
    )


def test_what_the_last_client_side_apply_set_does_not_conflict(deployment_node: SchemaNode) -> None:
    live = client_side(deployment_node, deployment(1))
    applied = apply(deployment_node, live, deployment(2, "a:2"))
    assert applied["spec"]["replicas"] == 2
    assert applied["spec"]["template"]["spec"]["containers"][0]["image"] == "a:2"


def test_only_for_kubectl(deployment_node: SchemaNode) -> None:
    live = client_side(deployment_node, deployment(1))
    with pytest.raises(
        Conflict, match=r'conflict with "kubectl-client-side-apply" using apps/v1: .spec.replicas'
    ):
        apply(deployment_node, live, deployment(2), "other")


def test_a_field_that_somebody_changed_since_conflicts(deployment_node: SchemaNode) -> None:
    live = client_side(deployment_node, deployment(1))
    scaled = copy.deepcopy(live)
    scaled["spec"]["replicas"] = 5
    ssa.update_managed_fields(
        live, scaled, node=deployment_node, manager="hpa", api_version="apps/v1", now=NOW
    )
    with pytest.raises(Conflict) as raised:
        apply(deployment_node, scaled, deployment(2, "a:2"))
    assert (
        raised.value.message
        == 'Apply failed with 1 conflict: conflict with "hpa" using apps/v1: .spec.replicas'
    )


def test_the_annotation_follows_server_side_apply(deployment_node: SchemaNode) -> None:
    live = client_side(deployment_node, deployment(1))
    applied = apply(deployment_node, live, deployment(2))
    annotation = applied["metadata"]["annotations"][ANNOTATION]
    assert orjson.loads(annotation) == deployment(2)
    assert annotation.endswith("\n")
    assert "managedFields" not in annotation


def test_the_annotation_does_not_hold_itself(deployment_node: SchemaNode) -> None:
    live = client_side(deployment_node, deployment(1))
    config = deployment(1)
    config["metadata"]["annotations"] = {ANNOTATION: "{}", "x": "y"}
    before = copy.deepcopy(config)
    applied = apply(deployment_node, live, config, force=True)
    assert orjson.loads(applied["metadata"]["annotations"][ANNOTATION])["metadata"]["annotations"] == {
        "x": "y"
    }
    assert config == before


def test_objects_without_the_annotation_get_none(deployment_node: SchemaNode) -> None:
    applied = apply(deployment_node, apply(deployment_node, None, deployment(1)), deployment(2))
    assert "annotations" not in applied["metadata"]


def test_an_annotation_that_would_get_too_long_is_dropped(deployment_node: SchemaNode) -> None:
    live = client_side(deployment_node, deployment(1))
    applied = apply(deployment_node, live, deployment(2, long="x" * 300_000))
    assert applied["metadata"]["annotations"] == {}


@pytest.mark.parametrize(
    "annotation", ["", "{", "[]", '{"apiVersion": "apps/v2"}', '{"apiVersion": "apps/v1", "spec": 1}']
)
def test_an_invalid_annotation_allows_nothing(deployment_node: SchemaNode, annotation: str) -> None:
    live = client_side(deployment_node, deployment(1))
    live["metadata"]["annotations"][ANNOTATION] = annotation
    with pytest.raises(Conflict):
        apply(deployment_node, live, deployment(2))

"""The constants agree with the registry."""

import pytest

from alcove.api.kind import Scope
from alcove.api.registry import GROUPS
from alcove.client import resources
from alcove.client.resources import Resource

ALL = [value for value in vars(resources).values() if isinstance(value, Resource)]


@pytest.mark.parametrize("resource", ALL, ids=str)
def test_each_constant_is_a_registered_kind(resource: Resource) -> None:
    rows = {(group.group, group.version, row.resource): row for group in GROUPS for row in group.rows}
    row = rows[resource.group, resource.version, resource.resource]
    assert row.kind == resource.kind
    assert (row.scope is Scope.NAMESPACE) is resource.namespaced


def test_paths() -> None:
    assert resources.PODS.root == "/api/v1"
    assert resources.DEPLOYMENTS.root == "/apis/apps/v1"
    assert str(resources.DEPLOYMENTS) == "deployments.apps"

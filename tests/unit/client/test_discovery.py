"""The resources that the server's discovery lists."""

import pytest

from alcove.api.ids import SYSTEM, TenantId
from alcove.client.client import Client
from alcove.client.discovery import parsed, served
from alcove.client.errors import MalformedResponse
from alcove.client.resources import DEPLOYMENTS, HORIZONTAL_POD_AUTOSCALERS, NETWORKS, PODS, TENANTS
from alcove.testing.server import LocalServer


async def test_every_resource_is_listed_once(client: Client) -> None:
    found = {each.resource: each.verbs for each in await served(client, SYSTEM)}
    assert {PODS, DEPLOYMENTS, TENANTS, NETWORKS, HORIZONTAL_POD_AUTOSCALERS} <= set(found)
    names = [(resource.group, resource.resource) for resource in found]
    assert len(names) == len(set(names))
    assert ("events.k8s.io", "events") not in names and ("", "networks") not in names
    assert "watch" in found[PODS]


async def test_discovery_of_a_tenant_has_no_ring0_resources(client: Client, server: LocalServer) -> None:
    server.make_tenant("discovered")
    found = {each.resource for each in await served(client, TenantId("discovered"))}
    assert PODS in found and TENANTS not in found


def test_an_invalid_discovery_document_raises_an_error() -> None:
    with pytest.raises(MalformedResponse):
        parsed([{"kind": "Status"}])

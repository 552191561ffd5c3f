"""Hosts and external names are connected to directly, services through nodes."""

from typing import Any

import pytest

from alcove.api import destinations
from alcove.api.ids import SYSTEM, TenantId
from alcove.api.resources import ENDPOINT_SLICES, SERVICES
from alcove.apiserver.outbound.dialer import OUT_OF_BOUNDS
from alcove.apiserver.outbound.errors import WebhookError
from alcove.apiserver.outbound.webhook_dialer import WebhookTarget
from alcove.testing.memory_reader import MemoryReader
from alcove.testing.webhook_calls import webhook_dialer
from alcove.testing.webhook_server import WebhookServer

ACME = TenantId("acme")


def named(port: int) -> WebhookTarget:
    return WebhookTarget("s.n.svc", port, "n", "s")


def reader_with(tenant: TenantId, **spec: Any) -> MemoryReader:
    reader = MemoryReader()
    reader.put(tenant, SERVICES, {"metadata": {"name": "s", "namespace": "n"}, "spec": spec})
    return reader


async def test_an_external_name_leads_where_a_url_of_this_name_would() -> None:
    for tenant in (ACME, SYSTEM):
        reader = reader_with(tenant, type="ExternalName", externalName="127.0.0.1")
        dialer = webhook_dialer((), reader)
        with WebhookServer(lambda _path, review: review) as server:
            if tenant == SYSTEM:
                (await dialer.dial(tenant, named(server.port))).abort()
            else:
                with pytest.raises(WebhookError, match=OUT_OF_BOUNDS):
                    await dialer.dial(tenant, named(server.port))
        dialer.close()


async def test_endpoints_are_no_addresses_for_the_api_server() -> None:
    """Not even public ones: only the tenant's network leads there. What ring0 allows is connected to directly."""
    reader = reader_with(ACME, ports=[{"port": 443}])
    with WebhookServer(lambda _path, review: review) as server:
        for address in ("8.8.8.8", "127.0.0.1"):
            labels = {"kubernetes.io/service-name": "s"}
            slice_ = {
                "metadata": {"name": "s-1", "namespace": "n", "labels": labels},
                "ports": [{"port": server.port}],
                "endpoints": [{"addresses": [address]}],
            }
            reader.put(ACME, ENDPOINT_SLICES, slice_)
            dialer = webhook_dialer((), reader)
            with pytest.raises(WebhookError, match='no node has a pod in network "default"'):
                await dialer.dial(ACME, named(443))
        dialer = webhook_dialer(destinations.networks(["127.0.0.0/8"]), reader)
        (await dialer.dial(ACME, named(443))).abort()

"""Direct connections lead to public addresses that are not the cluster's own."""

from ipaddress import ip_address

import pytest

from alcove.api import destinations
from alcove.api.ids import SYSTEM, TenantId
from alcove.api.resources import NODES
from alcove.apiserver.outbound.dialer import OUT_OF_BOUNDS, DirectDialer
from alcove.apiserver.outbound.errors import WebhookError
from alcove.apiserver.outbound.node_addresses import NodeAddresses
from alcove.apiserver.outbound.resolver import ResolvedEndpoint
from alcove.testing.memory_reader import MemoryReader
from alcove.testing.webhook_server import WebhookServer

ACME = TenantId("acme")


def endpoint(address: str, port: int) -> ResolvedEndpoint:
    return ResolvedEndpoint((ip_address(address),), port)


async def test_a_public_address_of_this_very_machine_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if loopback were public: the connection is made, seen to lead back here, and dropped."""
    monkeypatch.setattr(destinations, "is_public", lambda _address: True)
    with WebhookServer(lambda _path, review: review) as echo:
        with pytest.raises(WebhookError, match=OUT_OF_BOUNDS):
            await DirectDialer(NodeAddresses(MemoryReader())).dial(ACME, endpoint("127.0.0.1", echo.port))
        assert not echo.seen


async def test_a_nodes_public_address_is_refused() -> None:
    reader = MemoryReader()
    status = {
        "addresses": [{"type": "ExternalIP", "address": "8.8.8.8"}, {"type": "Hostname", "address": "n"}]
    }
    reader.put(SYSTEM, NODES, {"metadata": {"name": "n"}, "status": status})
    with pytest.raises(WebhookError, match=OUT_OF_BOUNDS):
        await DirectDialer(NodeAddresses(reader)).dial(ACME, endpoint("8.8.8.8", 443))

import pytest

from alcove.api.errors import ServiceUnavailable
from alcove.api.ids import SYSTEM, TenantId
from alcove.api.objects import Object
from alcove.api.resources import NODES
from alcove.apiserver.streams.agent_addresses import AgentAddress, agent_address
from alcove.testing.memory_reader import MemoryReader


def node(*addresses: tuple[str, str], port: int | None = None) -> Object:
    status: Object = {"addresses": [{"type": kind, "address": text} for kind, text in addresses]}
    if port is not None:
        status["daemonEndpoints"] = {"kubeletEndpoint": {"Port": port}}
    return {"metadata": {"name": "n1"}, "status": status}


def reader(obj: Object, tenant: TenantId = SYSTEM) -> MemoryReader:
    made = MemoryReader()
    made.put(tenant, NODES, obj)
    return made


@pytest.mark.parametrize(
    ("given", "address"),
    [
        (node(("InternalIP", "10.0.0.1")), AgentAddress("n1", "10.0.0.1", 10250)),
        (node(("Hostname", "n1"), ("InternalIP", "10.0.0.1"), port=99), AgentAddress("n1", "10.0.0.1", 99)),
        (node(("ExternalIP", "1.2.3.4"), ("InternalIP", "fd00::1")), AgentAddress("n1", "fd00::1", 10250)),
        (node(("ExternalIP", "1.2.3.4")), AgentAddress("n1", "1.2.3.4", 10250)),
    ],
)
def test_where_a_node_is(given: Object, address: AgentAddress) -> None:
    assert agent_address(reader(given), "n1") == address


@pytest.mark.parametrize(
    "given", [node(), node(("Hostname", "n1")), node(("InternalIP", "metadata.internal"))]
)
def test_names_are_not_resolved(given: Object) -> None:
    with pytest.raises(ServiceUnavailable, match="has not reported an address"):
        agent_address(reader(given), "n1")


def test_a_tenants_node_object_is_ignored() -> None:
    with pytest.raises(ServiceUnavailable, match='node "n1" is not registered'):
        agent_address(reader(node(("InternalIP", "10.0.0.1")), TenantId("acme")), "n1")

"""Where a node's agent listens: from ring0's Node object, which only ring0 and the node itself write."""

from ipaddress import ip_address

from msgspec import Struct

from alcove.api import objects
from alcove.api.errors import ServiceUnavailable
from alcove.api.ids import SYSTEM
from alcove.api.node_api import PORT
from alcove.api.resources import NODES
from alcove.apiserver.reader import CacheReader

_TYPES = ("InternalIP", "ExternalIP")


class AgentAddress(Struct, frozen=True):
    node: str
    host: str
    """An IP address, never a name: nothing is resolved."""
    port: int


def agent_address(reader: CacheReader, node: str) -> AgentAddress:
    """Raises ServiceUnavailable, with a message that tenants may see."""
    obj = reader.get(SYSTEM, NODES, "", node)
    if obj is None:
        raise ServiceUnavailable(f'node "{node}" is not registered')
    status = obj.get("status") or {}
    port = objects.get(status, "daemonEndpoints", "kubeletEndpoint", "Port", default=PORT)
    for address_type in _TYPES:
        for address in status.get("addresses") or ():
            if address.get("type") == address_type and _is_address(address.get("address")):
                return AgentAddress(node, address["address"], int(port))
    raise ServiceUnavailable(f'node "{node}" has not reported an address yet')


def _is_address(text: object) -> bool:
    try:
        ip_address(str(text))
    except ValueError:
        return False
    return True

"""Node ports: one range for all tenants, because all share the same nodes.

A node port is claimed by an endpoint in ring0 whose name states it (`port-30080-tcp`): creating the endpoint either
claims the port on all nodes or fails. What a tenant may hold of them is bounded (`api/pool_shares.py`).
"""

import re

from alcove.api import quantity
from alcove.api.kinds.core.services import types
from alcove.api.objects import Object, get
from alcove.api.quantity import QuantityError

PORTS = range(30000, 32768)
"""The ports that can be allocated. Ports that nodes use themselves are outside."""
NODE_PORTS_PER_TENANT_MAX = 256
"""Node ports that one tenant's services may hold, unless `spec.quota.hard` of its Tenant has `services.nodeports`."""
RESOURCE = "services.nodeports"
PROTOCOLS = ("TCP", "UDP", "SCTP")
CLAIM_PREFIX = "port-"

_CLAIM = re.compile(r"port-([1-9][0-9]{0,4})-(tcp|udp|sctp)")


def claim_name(port: int, protocol: str) -> str:
    return f"{CLAIM_PREFIX}{port}-{protocol.lower()}"


def claimed_port(name: str) -> tuple[int, str] | None:
    """Port and protocol (`TCP`) that an endpoint of this name claims on all nodes."""
    match = _CLAIM.fullmatch(name)
    return (int(match[1]), match[2].upper()) if match else None


def needs_port(spec: Object, port: Object) -> bool:
    """Whether this port of a service has a node port, or is to get one."""
    if not types.has_node_ports(spec):
        return False
    is_allocated = not types.is_balanced(spec) or spec.get("allocateLoadBalancerNodePorts", True)
    return bool(is_allocated or port.get("nodePort"))


def held_ports(spec: Object) -> set[tuple[int, str]]:
    """The node ports that a service has, with their protocols."""
    if not types.has_node_ports(spec):
        return set()
    ports = {
        (port["nodePort"], port.get("protocol") or "TCP")
        for port in spec.get("ports") or ()
        if port.get("nodePort")
    }
    if types.has_health_port(spec) and spec.get("healthCheckNodePort"):
        ports.add((spec["healthCheckNodePort"], "TCP"))
    return ports


def lacks_port(spec: Object) -> bool:
    """Whether the service is to get a node port that it does not have yet."""
    if types.has_health_port(spec) and not spec.get("healthCheckNodePort"):
        return True
    return any(needs_port(spec, port) and not port.get("nodePort") for port in spec.get("ports") or ())


def limit_of(tenant: Object | None) -> int:
    """The most node ports that the services of this tenant may hold."""
    hard = get(tenant or {}, "spec", "quota", "hard", default={}).get(RESOURCE)
    try:
        return quantity.whole(hard) if hard is not None else NODE_PORTS_PER_TENANT_MAX
    except QuantityError:
        return NODE_PORTS_PER_TENANT_MAX

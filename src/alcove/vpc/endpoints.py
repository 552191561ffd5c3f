"""Reconciles endpoints: provisions them when their droplet is known, and fails those that are invalid.

Endpoints that the allocator creates are complete from the start; this is for user-managed endpoints and for
droplets that are created later than their endpoints.
"""

from __future__ import annotations

import copy
import ipaddress

from alcove.api import objects
from alcove.api.kinds.mizar import SIMPLE
from alcove.api.kinds.ranges import gateway
from alcove.api.objects import Object
from alcove.client.resources import VPC_ENDPOINTS
from alcove.vpc import claims, ranges, states
from alcove.vpc.addressing import EVERYWHERE, out_of_range, pool_in, settle
from alcove.vpc.states import ProvisioningState
from alcove.vpc.vpc_cache import VpcCache, key_of, spec_of


class EndpointReconciler:
    def __init__(self, cache: VpcCache) -> None:
        self._cache = cache

    async def reconcile(self, name: str) -> None:
        endpoint = self._cache.endpoints.get(key_of(name))
        if endpoint is None or states.is_going(endpoint):
            return
        new = copy.deepcopy(endpoint)
        spec = new["spec"]
        spec.setdefault("type", SIMPLE)
        message = fault(self._cache, endpoint) if spec["type"] not in EVERYWHERE else ""
        if message:
            states.enter(new, ProvisioningState.FAILED, self._cache.clock())
        else:
            _complete(self._cache, spec)
            settle(self._cache, new, spec_of(endpoint, "droplet"))
        # A valid endpoint gets no status: there are many endpoints, and a write for each would be expensive.
        status = self._status(endpoint, ProvisioningState(spec["status"]), message)
        await states.write(self._cache.client, VPC_ENDPOINTS, new, endpoint, status)

    def _status(self, endpoint: Object, state: ProvisioningState, message: str) -> Object:
        if not message and not endpoint.get("status"):
            return {}
        return states.described(endpoint, state, message, self._cache.clock())


def _complete(cache: VpcCache, spec: Object) -> None:
    """Set the spec fields that follow from the subnet."""
    subnet = cache.subnet(spec.get("net", ""))
    if subnet is None:
        return
    pool, address = pool_in(subnet), ipaddress.ip_address(spec["ip"])
    spec.setdefault("vpc", pool.vpc)
    spec.setdefault("vni", pool.vni)
    spec.setdefault("prefix", pool.network.prefixlen)
    spec.setdefault("gw", str(gateway(pool.network)))
    spec.setdefault("mac", claims.mac_of(address))


def fault(cache: VpcCache, endpoint: Object) -> str:
    """The error message for a user-managed endpoint; empty if it is valid."""
    subnet = cache.subnet(spec_of(endpoint, "net"))
    if subnet is None or not states.is_provisioned(subnet):
        return f'subnet "{spec_of(endpoint, "net")}" is not provisioned'
    pool = pool_in(subnet)
    text = spec_of(endpoint, "ip")
    if not text:
        return "spec.ip is required"
    address = ipaddress.ip_address(text)
    if not ranges.is_usable(pool.network, address):
        return out_of_range(address, pool)
    expected = claims.endpoint_name(pool.scope, address)
    if objects.name(endpoint) != expected:
        return f'metadata.name must be "{expected}", so that no address is allocated twice'
    return ""

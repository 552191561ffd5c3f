"""Endpoints that need something: provisioned when their droplet is known, refused when they claim nothing.

Those that the allocator makes are whole at once; this is for what is written by hand, and for droplets
that come later than their endpoints.
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
        why = fault(self._cache, endpoint) if spec["type"] not in EVERYWHERE else ""
        if why:
            states.enter(new, ProvisioningState.FAILED, self._cache.clock())
        else:
            _complete(self._cache, spec)
            settle(self._cache, new, spec_of(endpoint, "droplet"))
        # A good endpoint has nothing to say: there are many, and each write counts.
        status = self._described(endpoint, ProvisioningState(spec["status"]), why)
        await states.write(self._cache.client, VPC_ENDPOINTS, new, endpoint, status)

    def _described(self, endpoint: Object, state: ProvisioningState, why: str) -> Object:
        if not why and not endpoint.get("status"):
            return {}
        return states.described(endpoint, state, why, self._cache.clock())


def _complete(cache: VpcCache, spec: Object) -> None:
    """What the subnet says of all its endpoints."""
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
    """What is wrong with an endpoint that somebody wrote, in words; empty: nothing."""
    subnet = cache.subnet(spec_of(endpoint, "net"))
    if subnet is None or not states.is_provisioned(subnet):
        return f'subnet "{spec_of(endpoint, "net")}" is not provisioned'
    pool = pool_in(subnet)
    text = spec_of(endpoint, "ip")
    if not text:
        return "spec.ip is missing: an endpoint is made for one address"
    address = ipaddress.ip_address(text)
    if not ranges.is_usable(pool.network, address):
        return out_of_range(address, pool)
    proper = claims.endpoint_name(pool.scope, address)
    if objects.name(endpoint) != proper:
        return f'its name must be "{proper}": by that, no address can be had twice'
    return ""

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
from alcove.vpc.addressing import EVERYWHERE, out_of_range, place_in, settle
from alcove.vpc.states import State
from alcove.vpc.world import World, key_of, spec_of


class Endpoints:
    def __init__(self, world: World) -> None:
        self._world = world

    async def reconcile(self, name: str) -> None:
        endpoint = self._world.endpoints.get(key_of(name))
        if endpoint is None or states.is_going(endpoint):
            return
        new = copy.deepcopy(endpoint)
        spec = new["spec"]
        spec.setdefault("type", SIMPLE)
        why = fault(self._world, endpoint) if spec["type"] not in EVERYWHERE else ""
        if why:
            states.enter(new, State.FAILED, self._world.clock())
        else:
            _complete(self._world, spec)
            settle(self._world, new, spec_of(endpoint, "droplet"))
        # A good endpoint has nothing to say: there are many, and each write counts.
        status = self._described(endpoint, State(spec["status"]), why)
        await states.write(self._world.client, VPC_ENDPOINTS, new, endpoint, status)

    def _described(self, endpoint: Object, state: State, why: str) -> Object:
        if not why and not endpoint.get("status"):
            return {}
        return states.described(endpoint, state, why, self._world.clock())


def _complete(world: World, spec: Object) -> None:
    """What the subnet says of all its endpoints."""
    subnet = world.subnet(spec.get("net", ""))
    if subnet is None:
        return
    place, address = place_in(subnet), ipaddress.ip_address(spec["ip"])
    spec.setdefault("vpc", place.vpc)
    spec.setdefault("vni", place.vni)
    spec.setdefault("prefix", place.network.prefixlen)
    spec.setdefault("gw", str(gateway(place.network)))
    spec.setdefault("mac", claims.mac_of(address))


def fault(world: World, endpoint: Object) -> str:
    """What is wrong with an endpoint that somebody wrote, in words; empty: nothing."""
    subnet = world.subnet(spec_of(endpoint, "net"))
    if subnet is None or not states.is_provisioned(subnet):
        return f'subnet "{spec_of(endpoint, "net")}" is not provisioned'
    place = place_in(subnet)
    text = spec_of(endpoint, "ip")
    if not text:
        return "spec.ip is missing: an endpoint is made for one address"
    address = ipaddress.ip_address(text)
    if not ranges.is_usable(place.network, address):
        return out_of_range(address, place)
    proper = claims.endpoint_name(place.scope, address)
    if objects.name(endpoint) != proper:
        return f'its name must be "{proper}": by that, no address can be had twice'
    return ""

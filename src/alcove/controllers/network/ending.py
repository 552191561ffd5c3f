"""Takes down what was made for a network: its services, subnets, VPC, number and addresses.

In that order, each step waiting for the one before: a service's address is free before its subnet goes,
subnets go before their VPC, and all of it before the network does. What was only attached stays.
"""

from __future__ import annotations

import copy
from typing import ClassVar

from alcove.api import objects
from alcove.api.errors import Conflict, NotFound
from alcove.api.ids import SYSTEM
from alcove.api.kinds.ranges import read_number
from alcove.api.objects import Object
from alcove.client.client import Client
from alcove.client.keys import HOME, ObjectKey
from alcove.client.mirror import Mirror
from alcove.client.resources import DIVIDERS, SERVICES, SUBNETS, VPC_ENDPOINTS, VPCS
from alcove.network import owners, wellknown
from alcove.network.backings import Backings
from alcove.network.owners import NetworkId
from alcove.vpc.addressing import GATEWAY, SCALED
from alcove.vpc.states import some
from alcove.vpc.world import World, spec_of

_OVER = ("Succeeded", "Failed")


def is_in_network(pod: Object) -> bool:
    """Whether the pod has, or is to have, an address of its network."""
    spec = pod.get("spec") or {}
    return not spec.get("hostNetwork") and objects.get(pod, "status", "phase") not in _OVER


class Ending:
    LOOK_SECONDS: ClassVar[float] = 0.5
    """Addresses that are being given back are looked for so often."""

    def __init__(self, world: World, backings: Backings, pods: Mirror, services: Mirror) -> None:
        self._world = world
        self._backings = backings
        self._pods = pods
        self._services = services

    def users(self, key: ObjectKey) -> str:
        """Who is in the network yet, in words; empty: nobody."""
        pods = [
            f"{objects.namespace(pod)}/{objects.name(pod)}"
            for pod in self._pods.find("joined", key.plane, key.tenant, key.name)
            if is_in_network(pod)
        ]
        services = [
            f"{objects.namespace(service)}/{objects.name(service)}"
            for service in self._services.find("joined", key.plane, key.tenant, key.name)
            if not wellknown.is_wellknown(service)
        ]
        told = [f"pods {some(sorted(pods))}"] if pods else []
        told += [f"services {some(sorted(services))}"] if services else []
        return " and ".join(told) + (" are in it" if told else "")

    async def take_down(self, client: Client, key: ObjectKey, owner: NetworkId) -> str:
        """Does what can be done now; what is left, in words, or nothing."""
        for namespace, name in (
            (wellknown.DNS_NAMESPACE, wellknown.dns_name(key.name)),
            (wellknown.API_NAMESPACE, wellknown.api_name(key.name)),
        ):
            service = self._services.get(key.of(name, namespace))
            if service is not None:
                try:
                    uid = service["metadata"]["uid"]
                    await client.delete(key.tenant, SERVICES, name, namespace=namespace, uid=uid)
                except (NotFound, Conflict):
                    pass
        return await self.clear(owner)

    async def clear(self, owner: NetworkId) -> str:
        """What ring0 has of the network; nobody is in it any more."""
        vpcs, dividers = self._backings.vpcs(owner), self._backings.dividers(owner)
        for vni in {read_number(each["spec"].get("vni")) for each in (*vpcs, *dividers)} - {None}:
            if left := await self._clear_addresses(str(vni)):
                return f"{left} addresses are still in use"
        subnets = self._backings.subnets(owner)
        for subnet in subnets:
            await self._world.delete(SUBNETS, objects.name(subnet), subnet["metadata"]["uid"])
        if subnets:
            return f"subnets {some([objects.name(each) for each in subnets])} are being deleted"
        for divider in dividers:
            await self._world.delete(DIVIDERS, objects.name(divider), divider["metadata"]["uid"])
        return await self._clear_vpcs(vpcs)

    async def _clear_addresses(self, scope: str) -> int:
        """How many are in use by others than the network's own services and gateways."""
        left = 0
        for endpoint in self._world.endpoints.find("scope", HOME, SYSTEM, scope):
            if spec_of(endpoint, "type") in (SCALED, GATEWAY):
                await self._world.delete(VPC_ENDPOINTS, objects.name(endpoint), endpoint["metadata"]["uid"])
            else:
                left += 1
        return left

    async def _clear_vpcs(self, vpcs: list[Object]) -> str:
        waits = []
        for vpc in vpcs:
            if owners.is_made(vpc):
                await self._world.delete(VPCS, objects.name(vpc), vpc["metadata"]["uid"])
                waits.append(objects.name(vpc))
            elif owners.ATTACHED_MARK in objects.annotations(vpc):
                free = copy.deepcopy(vpc)
                owners.unmark(free)
                await self._world.client.update(SYSTEM, VPCS, free)
        return f"VPC {some(waits)} is being deleted" if waits else ""

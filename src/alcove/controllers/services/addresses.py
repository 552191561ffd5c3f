"""Cluster IPs of services: allocated from the range of the service's network; networks may have equal ranges.

A cluster IP is an endpoint of type `scaled` in ring0. Creating the endpoint allocates the address, so that
it is allocated only once even with several controllers. It is released with the service, or when the
service no longer needs it.
"""

from __future__ import annotations

import ipaddress

from alcove.api import objects
from alcove.api.addresses import Address, Network
from alcove.api.kinds.core.networks import network_of
from alcove.api.kinds.core.services import types
from alcove.api.kinds.mizar import SCALED
from alcove.api.objects import Object
from alcove.client.keys import ObjectKey
from alcove.client.resources import SERVICES
from alcove.controllers.controller import ControllerContext
from alcove.controllers.services.claiming import ServiceClaims, owner_name
from alcove.network import wellknown
from alcove.network.provider_networks import ProviderNetwork
from alcove.network.service_ranges import service_ranges
from alcove.vpc.addressing import EndpointPurpose
from alcove.vpc.allocator import AddressAllocator
from alcove.vpc.errors import AddressTaken, RangeFull, RequestRefused
from alcove.vpc.vpc_cache import spec_of

EXTERNAL = "External"
"""`ipam` of a network whose cluster IPs are allocated by an external component."""


class ServiceAddressController(ServiceClaims):
    name = "service-address"
    workers = 32

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._allocator = AddressAllocator(self._cache, context.clock)
        self.on(self._services)
        self.on(self._cache.endpoints, lambda change: self._service_of_deleted(change, SCALED))

    async def _allocate(self, key: ObjectKey, service: Object) -> None:
        existing = self._claimed(service, SCALED)
        if not _needs_address(service["spec"]):
            await self._release_endpoints(existing)
            return
        network = self._networks.get(key.of(network_of(service), ""))
        if network is None:
            # The creation of the network enqueues the service.
            self._warn(key, service, f'network "{network_of(service)}" not found')
            return
        if "deletionTimestamp" in network["metadata"] or _is_external(network):
            return
        backing = self._backing(key, service)
        if backing is not None:
            await self._address(key, service, network, backing, existing)

    async def _address(
        self,
        key: ObjectKey,
        service: Object,
        network: Object,
        backing: ProviderNetwork,
        existing: list[Object],
    ) -> None:
        """Claims the service's cluster IP, or a free one, then writes it into the service."""
        if service["spec"].get("ipFamilyPolicy") == "RequireDualStack":
            message = f'network "{network_of(service)}" has only IPv{backing.network.version}'
            raise RequestRefused(f"ipFamilyPolicy is RequireDualStack, but {message}")
        cidrs, cluster_ip = service_ranges(network, [backing.network]), spec_of(service, "clusterIP")
        matching = [each for each in existing if not cluster_ip or spec_of(each, "ip") == cluster_ip]
        await self._release_endpoints(each for each in existing if each not in matching[:1])
        endpoint = matching[0] if matching else await self._claim(key, service, backing, cidrs, cluster_ip)
        if not cluster_ip:
            await self._write(key, service, spec_of(endpoint, "ip"))

    async def _claim(
        self, key: ObjectKey, service: Object, backing: ProviderNetwork, cidrs: list[Network], cluster_ip: str
    ) -> Object:
        uid = service["metadata"]["uid"]
        purpose = EndpointPurpose(owner_uid=uid, what=owner_name(key), kind=SCALED)
        if cluster_ip:
            address = ipaddress.ip_address(cluster_ip)
            return await self._allocator.claim(backing.services(_range_of(address, cidrs)), purpose, address)
        if wellknown.is_dns(service):
            usual = cidrs[0].network_address + wellknown.DNS_OFFSET
            try:
                return await self._allocator.claim(backing.services(cidrs[0]), purpose, usual)
            except (AddressTaken, RequestRefused):
                pass  # Use any other address.
        for cidr in cidrs:
            try:
                return await self._allocator.claim(backing.services(cidr), purpose)
            except RangeFull:
                continue
        raise RangeFull(f"no free service address in {', '.join(map(str, cidrs))}")

    async def _write(self, key: ObjectKey, service: Object, address: str) -> None:
        family = f"IPv{ipaddress.ip_address(address).version}"
        service["spec"] |= {"clusterIP": address, "clusterIPs": [address], "ipFamilies": [family]}
        await self.client(key).update(key.tenant, SERVICES, service)


def _is_external(network: Object) -> bool:
    return bool(objects.get(network, "spec", "service", "ipam") == EXTERNAL)


def _needs_address(spec: Object) -> bool:
    return types.has_cluster_ip(spec) and not types.is_headless(spec)


def _range_of(address: Address, cidrs: list[Network]) -> Network:
    for cidr in cidrs:
        if address in cidr:
            return cidr
    shown = ", ".join(map(str, cidrs))
    raise RequestRefused(f"address {address} is outside the network's range for services ({shown})")

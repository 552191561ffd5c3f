"""Endpoints and EndpointSlice of `default/kubernetes`: the address at which pods reach the tenant's API server, the
gateway of their own node."""

from __future__ import annotations

from collections.abc import Iterable

from alcove.api import objects
from alcove.api.errors import AlreadyExists, NotFound
from alcove.api.kinds.core.networks import network_of
from alcove.api.kinds.ranges import gateway
from alcove.api.objects import Object
from alcove.api.validation import same
from alcove.client.changes import ObjectChange
from alcove.client.keys import ObjectKey
from alcove.client.mirror import Mirror
from alcove.client.resources import ENDPOINT_SLICES, ENDPOINTS, NETWORKS, SERVICES, Resource
from alcove.controllers.controller import DONE, Controller, ControllerContext, Result
from alcove.controllers.network.networks import became_ready
from alcove.network import wellknown
from alcove.network.owners import TenantNetworkId
from alcove.network.provider_networks import ProviderNetwork, ProviderNetworks
from alcove.vpc.vpc_cache import VpcCache


class ApiEndpointsController(Controller):
    name = "api-endpoints"
    resource = SERVICES

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._cache = VpcCache(context.planes, context.clock)
        self._backings = ProviderNetworks(self._cache)
        self._networks = self.mirror(NETWORKS)
        self._services = self.mirror(SERVICES)
        self._endpoints = self.mirror(ENDPOINTS)
        self._slices = self.mirror(ENDPOINT_SLICES)
        for mirror in (self._services, self._endpoints, self._slices):
            self.on(mirror, _of_same_name)
        self.on(self._networks, self._of_network)

    async def wait_for_mirrors(self, key: ObjectKey) -> None:
        await super().wait_for_mirrors(key)
        await self._cache.caught_up(self._cache.vpcs, self._cache.subnets, self._cache.dividers)

    def _of_network(self, change: ObjectChange) -> Iterable[ObjectKey]:
        key = change.key.of(wellknown.API_NAME, wellknown.API_NAMESPACE)
        return (key,) if became_ready(change) and self._services.get(key) is not None else ()

    async def reconcile(self, key: ObjectKey) -> Result:
        service = self._services.get(key)
        if service is None or not wellknown.is_ours(service):
            return DONE  # The garbage collector deletes what the service owned.
        name = network_of(service)
        network = self._networks.get(key.of(name, ""))
        if network is None or "deletionTimestamp" in service["metadata"]:
            return DONE
        owner = TenantNetworkId(key.tenant, name)
        backing = self.context.options.providers.backing(self._backings, owner, network)
        if backing is not None and backing.subnets:
            address = _gateway(backing)
            await self._ensure(key, ENDPOINTS, self._endpoints, _endpoints(service, address))
            await self._ensure(key, ENDPOINT_SLICES, self._slices, _slice(service, address))
        return DONE

    async def _ensure(self, key: ObjectKey, resource: Resource, mirror: Mirror, desired: Object) -> None:
        existing = mirror.get(key)
        try:
            if existing is None:
                await self.client(key).create(key.tenant, resource, desired)
                return
            metadata = {**existing["metadata"], **desired["metadata"]}
            new = {**existing, **desired, "metadata": metadata}
            if not same(new, existing):
                await self.client(key).update(key.tenant, resource, new)
        except (AlreadyExists, NotFound):
            pass  # The watch event enqueues the service again.


def _of_same_name(change: ObjectChange) -> Iterable[ObjectKey]:
    key = change.key
    is_api = (key.namespace, key.name) == (wellknown.API_NAMESPACE, wellknown.API_NAME)
    return (key,) if is_api else ()


def _gateway(backing: ProviderNetwork) -> str:
    """The address at which the gateways' servers listen: that of the first subnet by name."""
    return str(gateway(backing.subnets[min(backing.subnets)].network))


def _metadata(service: Object, labels: dict[str, str]) -> Object:
    owner = {
        "apiVersion": SERVICES.api_version,
        "kind": SERVICES.kind,
        "name": objects.name(service),
        "uid": service["metadata"]["uid"],
    }
    return {
        "name": objects.name(service),
        "namespace": objects.namespace(service),
        "labels": labels,
        "ownerReferences": [owner],
    }


def _endpoints(service: Object, address: str) -> Object:
    port = {"name": "https", "port": wellknown.API_PORT, "protocol": "TCP"}
    labels = {"endpointslice.kubernetes.io/skip-mirror": "true"}
    return {
        "metadata": _metadata(service, labels),
        "subsets": [{"addresses": [{"ip": address}], "ports": [port]}],
    }


def _slice(service: Object, address: str) -> Object:
    port = {"name": "https", "port": wellknown.API_PORT, "protocol": "TCP"}
    return {
        "metadata": _metadata(service, {"kubernetes.io/service-name": objects.name(service)}),
        "addressType": "IPv6" if ":" in address else "IPv4",
        "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
        "ports": [port],
    }

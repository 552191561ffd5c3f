"""Deletes the objects of a network: its services, then its provider's objects in ring0.

Each step waits for the one before: the addresses of services are released before their VPC objects are
deleted, and all of these before the network.
"""

from __future__ import annotations

from typing import ClassVar

from alcove.api import objects
from alcove.api.errors import Conflict, NotFound
from alcove.api.objects import Object
from alcove.client.client import Client
from alcove.client.keys import ObjectKey
from alcove.client.mirror import Mirror
from alcove.client.resources import SERVICES
from alcove.network import wellknown
from alcove.network.owners import TenantNetworkId
from alcove.network.provider_networks import ProviderNetworks
from alcove.network.providers.base import Providers
from alcove.vpc.states import some

_FINISHED = ("Succeeded", "Failed")


def is_in_network(pod: Object) -> bool:
    """Whether the pod has, or will have, an address in its network."""
    spec = pod.get("spec") or {}
    return not spec.get("hostNetwork") and objects.get(pod, "status", "phase") not in _FINISHED


class NetworkTeardown:
    LOOK_SECONDS: ClassVar[float] = 0.5
    """How often a terminating network checks whether its addresses are released."""

    def __init__(
        self, providers: Providers, backings: ProviderNetworks, pods: Mirror, services: Mirror
    ) -> None:
        self._providers = providers
        self._backings = backings
        self._pods = pods
        self._services = services

    def users(self, key: ObjectKey) -> str:
        """A message that lists the pods and services in the network; empty if there are none."""
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
        parts = [f"pods {some(sorted(pods))}"] if pods else []
        parts += [f"services {some(sorted(services))}"] if services else []
        return " and ".join(parts) + (" are in it" if parts else "")

    async def take_down(self, client: Client, key: ObjectKey, owner: TenantNetworkId) -> str:
        """Deletes what can be deleted now. Returns a message about what remains, or an empty string."""
        for namespace, name in wellknown.ids_of(key.name):
            service = self._services.get(key.of(name, namespace))
            if service is not None:
                try:
                    uid = service["metadata"]["uid"]
                    await client.delete(key.tenant, SERVICES, name, namespace=namespace, uid=uid)
                except (NotFound, Conflict):
                    pass
        return await self.release(owner)

    async def release(self, owner: TenantNetworkId) -> str:
        """Releases the network's objects in ring0; no pods and services may use it any more. Returns a
        message about what remains, or an empty string."""
        return await self._providers.release(self._backings, owner)

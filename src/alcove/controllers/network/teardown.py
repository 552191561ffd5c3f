"""Takes down what was made for a network: its services, then what its provider made in ring0.

In that order, each step waiting for the one before: a service's address is free before what it is of goes, and all
of it before the network does.
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

_OVER = ("Succeeded", "Failed")


def is_in_network(pod: Object) -> bool:
    """Whether the pod has, or is to have, an address of its network."""
    spec = pod.get("spec") or {}
    return not spec.get("hostNetwork") and objects.get(pod, "status", "phase") not in _OVER


class NetworkTeardown:
    LOOK_SECONDS: ClassVar[float] = 0.5
    """Addresses that are being given back are looked for so often."""

    def __init__(
        self, providers: Providers, backings: ProviderNetworks, pods: Mirror, services: Mirror
    ) -> None:
        self._providers = providers
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
        messages = [f"pods {some(sorted(pods))}"] if pods else []
        messages += [f"services {some(sorted(services))}"] if services else []
        return " and ".join(messages) + (" are in it" if messages else "")

    async def take_down(self, client: Client, key: ObjectKey, owner: TenantNetworkId) -> str:
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
        return await self.release(owner)

    async def release(self, owner: TenantNetworkId) -> str:
        """Release what ring0 has of the network; nobody is in it any more. What is left, in words, or nothing."""
        return await self._providers.release(self._backings, owner)

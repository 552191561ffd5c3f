"""The interface of network providers (one per type of network), and the list that finds one.

A provider decides which objects a network has in ring0 (`provision`, `backing`, `release`), which addresses
pods get (`interfaces`, `wanted_nics`), and what a node needs to know of a network (`node_layout`).
Controllers and agents use the list and never compare types. Adding a type takes one file with a class like
`flat.FlatNetworks` and one line in `all.py`; its name is one of `NETWORK_TYPES` in
`api/kinds/core/networks.py`, which the API server accepts.

Providers keep no state: everything is in ring0's objects, which are annotated with the network that they
belong to (`network/owners.py`). Every provider runs `tests/contract/test_network_providers.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar

from msgspec import Struct

from alcove.api import objects
from alcove.api.addresses import Network
from alcove.api.objects import Object
from alcove.network import nics
from alcove.network.fabric import Fabric
from alcove.network.nics import RequestedNic
from alcove.network.owners import TenantNetworkId
from alcove.network.provider_networks import ProviderNetwork, ProviderNetworks
from alcove.vpc.errors import AddressUnavailable
from alcove.vpc.vnis import VniAllocator


class SubnetLayout(Struct, frozen=True):
    network: Network
    bouncers: tuple[str, ...] = ()
    """Droplets with a bouncer of the subnet, in the order of the bouncers' names."""


class NetworkLayout(Struct, frozen=True, kw_only=True):
    """What a node needs to know of a network to serve pods in it."""

    owner: TenantNetworkId | None
    """None for a VPC that belongs to no network; a node may still have duties for it."""
    vni: int
    network: Network
    """The range that contains all its pods' addresses."""
    subnets: tuple[SubnetLayout, ...]
    dividers: tuple[str, ...] = ()
    """Droplets with a divider of the network. Without dividers and bouncers, every node that has the network
    watches all its endpoints."""


class Provisioning(Struct, frozen=True, kw_only=True):
    """What providers need to provision a network."""

    backings: ProviderNetworks
    numbers: VniAllocator
    providers: Providers
    fresh_range: Callable[[Sequence[Network]], Network]
    """The range that the fewest VPCs use and that overlaps none of the given ones. Raises RequestRefused."""


class NetworkProvider(ABC):
    types: ClassVar[tuple[str, ...]]
    """The values of `spec.type` that it serves."""
    ready_message: ClassVar[str]
    """The status message of its networks when they are ready."""
    heeds_nics: ClassVar[bool] = True
    """Whether pods choose their interfaces, subnets and addresses with `spec.nics`."""
    uses_bouncers: ClassVar[bool] = True
    """Whether nodes serve as bouncers and dividers for the VPCs of its networks."""

    def has_vpc(self, name: str) -> bool:
        """Whether the VPC of this name is reserved for this provider."""
        return False

    # Used by controllers

    @abstractmethod
    async def provision(self, provisioning: Provisioning, owner: TenantNetworkId, network: Object) -> None:
        """Create the network's objects in ring0. Safe to repeat; nothing is created for a network that is
        refused.

        Raises RequestRefused if the network is invalid as written, AddressUnavailable if it has to wait,
        Conflict if another writer created one of the objects first.
        """

    def awaited_vpcs(self, owner: TenantNetworkId, network: Object) -> tuple[str, ...]:
        """VPCs whose changes may unblock a network that was refused or is waiting."""
        return ()

    @abstractmethod
    def backing(
        self, backings: ProviderNetworks, owner: TenantNetworkId, network: Object
    ) -> ProviderNetwork | None:
        """The network's VPC, VNI and subnets; None if pods cannot be attached to it yet."""

    @abstractmethod
    async def release(self, backings: ProviderNetworks, owner: TenantNetworkId) -> str:
        """Delete what this provider created for the network, as far as possible now. The network has no pods
        any more.

        Returns a message about what remains; empty if nothing does, also if the network is of another
        provider.
        """

    @abstractmethod
    def wanted_nics(
        self, backings: ProviderNetworks, pod: Object, network: Object, backing: ProviderNetwork
    ) -> list[RequestedNic]:
        """The addresses that the pod gets, at least one. Raises RequestRefused and AddressUnavailable."""

    # Used by both

    def interfaces(self, pod: Object) -> list[str]:
        """Names of the interfaces that a pod has in such a network, at least one."""
        return nics.names(pod) if self.heeds_nics else [nics.interface(0)]

    # Used by nodes

    @abstractmethod
    def node_layout(self, fabric: Fabric, vpc: str, vni: int) -> NetworkLayout | None:
        """The layout of the network with this VNI in the VPC; None if it is not complete."""


class Providers:
    """An ordered list of providers. The last one serves every VPC that no other provider has."""

    def __init__(self, *providers: NetworkProvider) -> None:
        self._providers = providers

    def __iter__(self) -> Iterator[NetworkProvider]:
        return iter(self._providers)

    def of(self, network: Object) -> NetworkProvider:
        """The provider of the network's type. Raises AddressUnavailable if there is none."""
        provider = self._find(network)
        if provider is None:
            raise AddressUnavailable(
                f'no provider for networks of type "{objects.get(network, "spec", "type")}"'
            )
        return provider

    def _find(self, network: Object) -> NetworkProvider | None:
        kind = objects.get(network, "spec", "type", default="")
        return next((each for each in self._providers if kind in each.types), None)

    def of_vpc(self, name: str) -> NetworkProvider:
        """The provider of the networks whose addresses are in the VPC."""
        *others, last = self._providers
        return next((provider for provider in others if provider.has_vpc(name)), last)

    def backing(
        self, backings: ProviderNetworks, owner: TenantNetworkId, network: Object
    ) -> ProviderNetwork | None:
        return self.of(network).backing(backings, owner, network)

    def awaited_vpcs(self, owner: TenantNetworkId, network: Object) -> tuple[str, ...]:
        provider = self._find(network)
        return provider.awaited_vpcs(owner, network) if provider is not None else ()

    async def release(self, backings: ProviderNetworks, owner: TenantNetworkId) -> str:
        """Release what any provider created: the type of a deleted network is not known any more."""
        for provider in self._providers:
            if message := await provider.release(backings, owner):
                return message
        return ""

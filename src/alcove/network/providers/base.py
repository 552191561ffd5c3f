"""What a type of network has to offer: the interface of network providers, and the list that finds one.

A provider says what stands behind its networks in ring0 (`provision`, `backing`, `release`), which addresses pods
get (`interfaces`, `wanted_nics`), and what a node has to know of one of its networks (`node_layout`). Controllers
and agents ask the list and never compare types. Adding a type is one file with a class like `flat.FlatNetworks` and
one line in `all.py`; its name is one of `NETWORK_TYPES` in `api/kinds/core/networks.py`, which the API server accepts.

Providers keep no state: everything they know is in ring0's objects, marked with the network that they are of
(`network/owners.py`). Every provider runs `tests/contract/test_network_providers.py`.
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
    """Droplets that know all endpoints of the subnet, in the order of their duties' names."""


class NetworkLayout(Struct, frozen=True, kw_only=True):
    """What a node has to know of a network to serve pods in it."""

    owner: TenantNetworkId | None
    """None: a VPC that is no network's, which a node may still have duties for."""
    vni: int
    network: Network
    """The range that all its pods' addresses are of."""
    subnets: tuple[SubnetLayout, ...]
    dividers: tuple[str, ...] = ()
    """Droplets that know all its subnets. Without any, and without bouncers, every node that has the network
    is told of all its endpoints."""


class Provisioning(Struct, frozen=True, kw_only=True):
    """What providers make a network with."""

    backings: ProviderNetworks
    numbers: VniAllocator
    providers: Providers
    fresh_range: Callable[[Sequence[Network]], Network]
    """A range that fewest VPCs use and that overlaps none of these. Raises Refused."""


class NetworkProvider(ABC):
    types: ClassVar[tuple[str, ...]]
    """The `spec.type` of its networks."""
    ready_message: ClassVar[str]
    """What the status of its networks says when they can be used."""
    heeds_nics: ClassVar[bool] = True
    """Whether pods choose their interfaces, subnets and addresses with `spec.nics`."""
    uses_bouncers: ClassVar[bool] = True
    """Whether nodes serve as bouncers and dividers for the VPCs of its networks."""

    def has_vpc(self, name: str) -> bool:
        """Whether the VPC of this name is one of this provider's alone."""
        return False

    # What controllers ask

    @abstractmethod
    async def provision(self, provisioning: Provisioning, owner: TenantNetworkId, network: Object) -> None:
        """Make what the network needs in ring0. Safe to repeat; nothing is made for a network that is refused.

        Raises Refused where the network can never be as it is written, Unavailable where it has to wait, Conflict
        where somebody else was faster.
        """

    def awaited_vpcs(self, owner: TenantNetworkId, network: Object) -> tuple[str, ...]:
        """VPCs whose changes may let a network go on that was refused, or has to wait."""
        return ()

    @abstractmethod
    def backing(
        self, backings: ProviderNetworks, owner: TenantNetworkId, network: Object
    ) -> ProviderNetwork | None:
        """What stands behind the network; None: nothing yet that pods could be attached to."""

    @abstractmethod
    async def release(self, backings: ProviderNetworks, owner: TenantNetworkId) -> str:
        """Delete what this provider made for the network, as far as that can be done now; nobody is in it any more.

        Says what is left, in words; empty: nothing. A network that this provider made nothing for has nothing left.
        """

    @abstractmethod
    def wanted_nics(
        self, backings: ProviderNetworks, pod: Object, network: Object, backing: ProviderNetwork
    ) -> list[RequestedNic]:
        """The addresses that the pod is to get, at least one. Raises Refused, Unavailable."""

    # What both ask

    def interfaces(self, pod: Object) -> list[str]:
        """Names of the interfaces that a pod has in such a network, at least one."""
        return nics.names(pod) if self.heeds_nics else [nics.interface(0)]

    # What nodes ask

    @abstractmethod
    def node_layout(self, fabric: Fabric, vpc: str, vni: int) -> NetworkLayout | None:
        """The network that has the number in the VPC, as a node has to know it; None: it is not whole."""


class Providers:
    """An ordered list. The last one has every VPC that is no other's."""

    def __init__(self, *providers: NetworkProvider) -> None:
        self._providers = providers

    def __iter__(self) -> Iterator[NetworkProvider]:
        return iter(self._providers)

    def of(self, network: Object) -> NetworkProvider:
        """The provider of the network's type. Raises Unavailable where there is none."""
        found = self._find(network)
        if found is None:
            raise AddressUnavailable(
                f'no provider for networks of type "{objects.get(network, "spec", "type")}"'
            )
        return found

    def _find(self, network: Object) -> NetworkProvider | None:
        kind = objects.get(network, "spec", "type", default="")
        return next((each for each in self._providers if kind in each.types), None)

    def of_vpc(self, name: str) -> NetworkProvider:
        """The provider of the networks that have their addresses from the VPC."""
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
        """Release what any provider made: of a network that is gone, the type is not known any more."""
        for provider in self._providers:
            if left := await provider.release(backings, owner):
                return left
        return ""

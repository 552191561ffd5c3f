"""Calls to the data plane, serialized on one thread: some block on a subprocess or the kernel, and must not
block the agent's event loop, which also serves every network's DNS."""

import asyncio
import errno
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing
from ipaddress import IPv4Address
from pathlib import Path
from typing import TypeVar

from msgspec import Struct

from alcove.agent.network.map_shares import PolicyShares
from alcove.api.ids import TenantId
from alcove.api.kinds.ranges import gateway
from alcove.dataplane import links, namespaces
from alcove.dataplane.apply import RefusedEntries
from alcove.dataplane.dry_run import KernelVerdict, MadePacket
from alcove.dataplane.errors import KernelRefused
from alcove.dataplane.flows import NetworkTraffic
from alcove.dataplane.linkstate import default_route
from alcove.dataplane.meters import NetworkMeter
from alcove.dataplane.model import DataplaneState, Veth
from alcove.dataplane.netlink import Netlink
from alcove.dataplane.node_dataplane import DataPlane
from alcove.dataplane.openings import OpeningRing
from alcove.dataplane.veths import configure_interface

T = TypeVar("T")

FIRST_TABLE = 100
"""The routing table of a pod's second interface; each further one has the next table."""


class AppliedState(Struct, frozen=True):
    denied: frozenset[str]
    """Names of veths that are denied everything, because their rules are over the share of their tenant."""
    refused: tuple[RefusedEntries, ...]
    failed_gateways: Mapping[int, str]
    """Why gateways are not as they should be, by VNI."""


class DataplaneThread:
    def __init__(self, plane: DataPlane) -> None:
        self._plane = plane
        self._policies = PolicyShares()
        self._owners: dict[int, TenantId] = {}
        """The tenant of each VNI that was applied since the meters were read."""
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="dataplane")

    def close(self) -> None:
        self._thread.shutdown()

    def _submit(self, call: Callable[[], T]) -> "asyncio.Future[T]":
        """Calls run in the order of submission, whether or not they are awaited."""
        return asyncio.get_running_loop().run_in_executor(self._thread, call)

    def apply(self, state: DataplaneState, tenants: Mapping[int, TenantId]) -> "asyncio.Future[AppliedState]":
        """`tenants` has the tenant of each VNI with veths."""

        def call() -> AppliedState:
            self._owners |= tenants
            limited, denied = self._policies.share(state, tenants)
            return self._applied(denied, self._plane.apply(limited))

        return self._submit(call)

    def resync(
        self, state: DataplaneState, tenants: Mapping[int, TenantId], gateways: int | None
    ) -> "asyncio.Future[AppliedState]":
        def call() -> AppliedState:
            self._owners |= tenants
            limited, denied = self._policies.share(state, tenants)
            return self._applied(denied, self._plane.resync(limited, gateways))

        return self._submit(call)

    def _applied(self, denied: frozenset[str], refused: Sequence[RefusedEntries]) -> AppliedState:
        return AppliedState(denied, tuple(refused), dict(self._plane.gateways.failed))

    def attach_veths(self, namespace: str | Path, veths: tuple[Veth, ...]) -> "asyncio.Future[None]":
        """Creates a pod's veths, in the namespace of that name, which is created if missing, or at that path.
        Existing ones stay."""
        return self._submit(lambda: self._attach(namespace, veths))

    def configure_veths(self, namespace: str | Path, veths: tuple[Veth, ...]) -> "asyncio.Future[None]":
        """Sets the addresses and routes of the pod's ends of the veths again."""
        return self._submit(lambda: self._configure(namespace, veths))

    def has_veths(self, namespace: str | Path, veths: tuple[Veth, ...]) -> "asyncio.Future[bool]":
        """Whether all veths exist, with their pod's ends in that namespace."""
        return self._submit(lambda: self._have_veths(namespace, veths))

    def remove_veths(self, namespace: str, names: tuple[str, ...]) -> "asyncio.Future[None]":
        """Removes veths by name, and the namespace unless its name is empty. Idempotent."""
        return self._submit(lambda: self._remove(namespace, names))

    def open_traffic(self, vni: int) -> "asyncio.Future[NetworkTraffic | None]":
        """As `DataPlane.open_traffic`."""
        return self._submit(lambda: self._plane.open_traffic(vni))

    def open_rings(
        self, vnis: Sequence[int], held: Mapping[int, OpeningRing]
    ) -> "asyncio.Future[dict[int, OpeningRing]]":
        """As `DataPlane.open_rings`."""
        return self._submit(lambda: self._plane.open_rings(vnis, held))

    def network_openings(self) -> "asyncio.Future[dict[int, int]]":
        """As `DataPlane.network_openings`."""
        return self._submit(lambda: self._plane.network_openings())

    def network_drops(self) -> "asyncio.Future[dict[int, int]]":
        """As `DataPlane.network_drops`."""
        return self._submit(lambda: self._plane.network_drops())

    def read_meters(self) -> "asyncio.Future[list[tuple[TenantId, NetworkMeter]]]":
        """The counters of the networks on the node and of those that have left it, with their tenants; those are empty
        while they are not known."""

        def call() -> list[tuple[TenantId, NetworkMeter]]:
            meters = self._plane.meters.read()
            owned = [(self._owners.get(meter.vni, TenantId("")), meter) for meter in meters]
            self._owners = {meter.vni: tenant for tenant, meter in owned if tenant}
            return owned

        return self._submit(call)

    def dry_run(self, veth: Veth, packet: MadePacket) -> "asyncio.Future[KernelVerdict]":
        """As `DataPlane.dry_run`."""
        return self._submit(lambda: self._plane.dry_run(veth, packet))

    def dry_run_arrival(
        self, vni: int, packet: MadePacket, sender: IPv4Address
    ) -> "asyncio.Future[KernelVerdict]":
        """As `DataPlane.dry_run_arrival`."""
        return self._submit(lambda: self._plane.dry_run_arrival(vni, packet, sender))

    def clean_up(self, prefix: str, keep: set[str]) -> "asyncio.Future[None]":
        """Removes all namespaces whose names begin with `prefix`, except those in `keep`."""
        return self._submit(lambda: _clean_up(prefix, keep))

    def _attach(self, namespace: str | Path, veths: tuple[Veth, ...]) -> None:
        descriptor = _open(namespace)
        try:
            for veth in veths:
                if not self._has_veth(veth, descriptor):
                    self._plane.add_port(veth, descriptor)
            _add_source_routes(descriptor, veths)
        finally:
            os.close(descriptor)

    def _have_veths(self, namespace: str | Path, veths: tuple[Veth, ...]) -> bool:
        path = namespace if isinstance(namespace, Path) else namespaces.path_of(namespace)
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            return all(self._has_veth(veth, descriptor) for veth in veths)
        finally:
            os.close(descriptor)

    def _has_veth(self, veth: Veth, namespace: int) -> bool:
        """Whether both ends exist: a namespace that was created again has none."""
        if links.read_link(self._plane.netlink, veth.name) is None:
            return False
        with _netlink(namespace) as inner:
            return links.read_link(inner, veth.pod_interface) is not None

    def _configure(self, namespace: str | Path, veths: tuple[Veth, ...]) -> None:
        descriptor = _open(namespace)
        try:
            for veth in veths:
                configure_interface(descriptor, veth.pod_interface, veth.addresses, veth.gateways)
            _add_source_routes(descriptor, veths)
        finally:
            os.close(descriptor)

    def _remove(self, namespace: str, names: tuple[str, ...]) -> None:
        for name in names:
            self._plane.remove_port(name)
        if namespace:
            namespaces.remove(namespace)


def _open(namespace: str | Path) -> int:
    """A descriptor of the namespace, for the caller to close. A named one is created if missing."""
    if isinstance(namespace, Path):
        return os.open(namespace, os.O_RDONLY | os.O_CLOEXEC)
    return namespaces.make(namespace)


def _netlink(namespace: int) -> AbstractContextManager[Netlink]:
    with namespaces.inside(namespace):
        return closing(Netlink())


def _add_source_routes(namespace: int, veths: Sequence[Veth]) -> None:
    """In a pod with several interfaces, packets from an address leave by that address' interface. By the
    default route they would leave by the first interface, where the data plane drops them as spoofed.
    Idempotent."""
    if len(veths) < 2:
        return
    with _netlink(namespace) as netlink:
        for table, veth in enumerate(veths[1:], FIRST_TABLE):
            link = links.read_link(netlink, veth.pod_interface)
            if link is None:
                raise KernelRefused(f"find {veth.pod_interface} in the pod's namespace", errno.ENODEV)
            for address in veth.addresses:
                route = default_route(gateway(address.network))
                netlink.do(
                    links.add_source_rule(address.ip, table),
                    links.add_route(link.index, None, route.via, route.family, table),
                )


def _clean_up(prefix: str, keep: set[str]) -> None:
    for name in namespaces.names(prefix):
        if name not in keep:
            namespaces.remove(name)

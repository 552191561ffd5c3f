"""The data plane's calls, one after the other on a thread of their own: some wait for a program or for the kernel, and
the agent's loop, with every network's DNS on it, waits for nothing."""

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from alcove.agent.network.routes import add_source_routes
from alcove.dataplane import links, namespaces
from alcove.dataplane.model import DataplaneState, Veth
from alcove.dataplane.netlink import Netlink
from alcove.dataplane.node_dataplane import DataPlane
from alcove.dataplane.veths import configure_interface

T = TypeVar("T")


class DataplaneThread:
    def __init__(self, plane: DataPlane) -> None:
        self._plane = plane
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="dataplane")

    def close(self) -> None:
        self._thread.shutdown()

    def _soon(self, call: Callable[[], T]) -> "asyncio.Future[T]":
        """Calls are carried out in the order of these, whoever waits for them."""
        return asyncio.get_running_loop().run_in_executor(self._thread, call)

    def apply(self, state: DataplaneState) -> "asyncio.Future[None]":
        return self._soon(lambda: self._plane.apply(state))

    def resync(self, state: DataplaneState, gateways: int | None) -> "asyncio.Future[None]":
        return self._soon(lambda: self._plane.resync(state, gateways))

    def attach_veths(self, namespace: str | Path, veths: tuple[Veth, ...]) -> "asyncio.Future[None]":
        """Ports for a pod: in the namespace of that name, made if it is missing, or at that path. Those that are
        there already stay."""
        return self._soon(lambda: self._plug(namespace, veths))

    def configure_veths(self, namespace: str | Path, veths: tuple[Veth, ...]) -> "asyncio.Future[None]":
        """Gives the ports' inner sides their addresses and routes again."""
        return self._soon(lambda: self._equip(namespace, veths))

    def has_veths(self, namespace: str | Path, veths: tuple[Veth, ...]) -> "asyncio.Future[bool]":
        """Whether the ports are there, in that namespace."""
        return self._soon(lambda: self._are_plugged(namespace, veths))

    def remove_veths(self, namespace: str, ports: tuple[str, ...]) -> "asyncio.Future[None]":
        """Removes ports, by name, and the namespace (of a name that is not empty). Idempotent."""
        return self._soon(lambda: self._unplug(namespace, ports))

    def sweep(self, prefix: str, keep: set[str]) -> "asyncio.Future[None]":
        """Removes namespaces of names that begin so, but for those."""
        return self._soon(lambda: _sweep(prefix, keep))

    def _plug(self, namespace: str | Path, veths: tuple[Veth, ...]) -> None:
        place = _open(namespace)
        try:
            for veth in veths:
                if not self._is_plugged(veth, place):
                    self._plane.add_port(veth, place)
            add_source_routes(place, veths)
        finally:
            os.close(place)

    def _are_plugged(self, namespace: str | Path, veths: tuple[Veth, ...]) -> bool:
        path = namespace if isinstance(namespace, Path) else namespaces.path_of(namespace)
        try:
            place = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            return all(self._is_plugged(veth, place) for veth in veths)
        finally:
            os.close(place)

    def _is_plugged(self, veth: Veth, namespace: int) -> bool:
        """Whether both ends are there: a namespace that was made anew has none."""
        if links.read_link(self._plane.netlink, veth.name) is None:
            return False
        with namespaces.inside(namespace):
            inner = Netlink()
        try:
            return links.read_link(inner, veth.pod_interface) is not None
        finally:
            inner.close()

    def _equip(self, namespace: str | Path, veths: tuple[Veth, ...]) -> None:
        place = _open(namespace)
        try:
            for veth in veths:
                configure_interface(place, veth.pod_interface, veth.addresses, veth.gateways)
            add_source_routes(place, veths)
        finally:
            os.close(place)

    def _unplug(self, namespace: str, ports: tuple[str, ...]) -> None:
        for port in ports:
            self._plane.remove_port(port)
        if namespace:
            namespaces.remove(namespace)


def _open(namespace: str | Path) -> int:
    if isinstance(namespace, Path):
        return os.open(namespace, os.O_RDONLY | os.O_CLOEXEC)
    return namespaces.make(namespace)


def _sweep(prefix: str, keep: set[str]) -> None:
    for name in namespaces.names(prefix):
        if name not in keep:
            namespaces.remove(name)

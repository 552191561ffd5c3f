"""The data plane's calls, one after the other on a thread of their own: some wait for a program or for the kernel, and
the agent's loop, with every network's DNS on it, waits for nothing."""

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from alcove.agent.network.routes import answer_by_own
from alcove.dataplane import links, namespaces
from alcove.dataplane.model import Port, World
from alcove.dataplane.netlink import Netlink
from alcove.dataplane.plane import Plane
from alcove.dataplane.ports import equip

T = TypeVar("T")


class Kernel:
    def __init__(self, plane: Plane) -> None:
        self._plane = plane
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="dataplane")

    def close(self) -> None:
        self._thread.shutdown()

    def _soon(self, call: Callable[[], T]) -> "asyncio.Future[T]":
        """Calls are carried out in the order of these, whoever waits for them."""
        return asyncio.get_running_loop().run_in_executor(self._thread, call)

    def apply(self, world: World) -> "asyncio.Future[None]":
        return self._soon(lambda: self._plane.apply(world))

    def mend(self, world: World, gateways: int | None) -> "asyncio.Future[None]":
        return self._soon(lambda: self._plane.mend(world, gateways))

    def plug(self, namespace: str | Path, ports: tuple[Port, ...]) -> "asyncio.Future[None]":
        """Ports for a pod: in the namespace of that name, made if it is missing, or at that path. Those that are
        there already stay."""
        return self._soon(lambda: self._plug(namespace, ports))

    def equip(self, namespace: str | Path, ports: tuple[Port, ...]) -> "asyncio.Future[None]":
        """Gives the ports' inner sides their addresses and routes again."""
        return self._soon(lambda: self._equip(namespace, ports))

    def is_plugged(self, namespace: str | Path, ports: tuple[Port, ...]) -> "asyncio.Future[bool]":
        """Whether the ports are there, in that namespace."""
        return self._soon(lambda: self._are_plugged(namespace, ports))

    def unplug(self, namespace: str, ports: tuple[str, ...]) -> "asyncio.Future[None]":
        """Removes ports, by name, and the namespace (of a name that is not empty). Idempotent."""
        return self._soon(lambda: self._unplug(namespace, ports))

    def sweep(self, prefix: str, keep: set[str]) -> "asyncio.Future[None]":
        """Removes namespaces of names that begin so, but for those."""
        return self._soon(lambda: _sweep(prefix, keep))

    def _plug(self, namespace: str | Path, ports: tuple[Port, ...]) -> None:
        place = _open(namespace)
        try:
            for port in ports:
                if not self._is_plugged(port, place):
                    self._plane.add_port(port, place)
            answer_by_own(place, ports)
        finally:
            os.close(place)

    def _are_plugged(self, namespace: str | Path, ports: tuple[Port, ...]) -> bool:
        path = namespace if isinstance(namespace, Path) else namespaces.path_of(namespace)
        try:
            place = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            return all(self._is_plugged(port, place) for port in ports)
        finally:
            os.close(place)

    def _is_plugged(self, port: Port, namespace: int) -> bool:
        """Whether both ends are there: a namespace that was made anew has none."""
        if links.read_link(self._plane.netlink, port.name) is None:
            return False
        with namespaces.inside(namespace):
            inner = Netlink()
        try:
            return links.read_link(inner, port.pod_interface) is not None
        finally:
            inner.close()

    def _equip(self, namespace: str | Path, ports: tuple[Port, ...]) -> None:
        place = _open(namespace)
        try:
            for port in ports:
                equip(place, port.pod_interface, port.addresses, port.gateways)
            answer_by_own(place, ports)
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

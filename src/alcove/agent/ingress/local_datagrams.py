"""UDP node ports and host ports for processes on the node itself, as `local_node_ports` is for TCP: a socket on
the node for each port, which relays the datagrams of each client through a socket of its own in the network.
"""

import asyncio
import logging
import socket
from collections.abc import Callable, Mapping
from functools import partial

from alcove.agent.ingress.local_node_ports import LocalService, Step

log = logging.getLogger(__name__)

FLOWS_MAX = 1_024
IDLE_SECONDS_MAX = 60.0
DATAGRAM_BYTES = 65_535
READS_AT_ONCE_MAX = 64
"""Datagrams that are read from one socket before others get their turn."""

OpenFlow = Callable[[LocalService], socket.socket]
"""A UDP socket in the network, connected to the service and not blocking. Raises OSError."""
Client = tuple[object, ...]
"""The address of a client, as the kernel gives it."""


class _Flow:
    """The datagrams of one client to one port."""

    def __init__(self, sock: socket.socket, now: float) -> None:
        self.socket = sock
        self.used_at = now


class _Port:
    def __init__(self, service: LocalService, sock: socket.socket) -> None:
        self.service = service
        self.socket = sock
        self.flows: dict[Client, _Flow] = {}


class LocalDatagrams:
    def __init__(self, open_flow: OpenFlow) -> None:
        self._open_flow = open_flow
        self._ports: dict[Step, _Port] = {}
        self._flows = 0

    def set(self, desired: Mapping[Step, LocalService]) -> None:
        """Listens on exactly these ports from now on. A port that another process has bound is skipped with a
        warning."""
        for step in [each for each, port in self._ports.items() if desired.get(each) != port.service]:
            self._close(self._ports.pop(step))
        for step, service in desired.items():
            if step not in self._ports:
                try:
                    self._ports[step] = self._listen(step, service)
                except OSError as error:
                    fields = {"port": step[1], "error": str(error)}
                    log.warning("failed to listen on UDP port of the node", extra=fields)

    def steps(self) -> frozenset[Step]:
        return frozenset(self._ports)

    def close(self) -> None:
        self.set({})

    def _listen(self, step: Step, service: LocalService) -> _Port:
        family = socket.AF_INET6 if ":" in step[0] else socket.AF_INET
        sock = socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        try:
            sock.bind(step)
        except OSError:
            sock.close()
            raise
        port = _Port(service, sock)
        asyncio.get_running_loop().add_reader(sock, self._from_clients, port)
        return port

    def _from_clients(self, port: _Port) -> None:
        now = asyncio.get_running_loop().time()
        for _ in range(READS_AT_ONCE_MAX):
            try:
                data, client = port.socket.recvfrom(DATAGRAM_BYTES)
            except OSError:
                return
            flow = port.flows.get(client) or self._start(port, client, now)
            if flow is not None:
                flow.used_at = now
                _send(flow.socket.send, data)

    def _start(self, port: _Port, client: Client, now: float) -> _Flow | None:
        """None if there are too many flows, or the network cannot be reached: then the datagram is lost."""
        if self._flows >= FLOWS_MAX:
            return None
        try:
            flow = _Flow(self._open_flow(port.service), now)
        except OSError:
            return None
        self._flows += 1
        port.flows[client] = flow
        loop = asyncio.get_running_loop()
        loop.add_reader(flow.socket, self._from_service, port, client, flow)
        loop.call_later(IDLE_SECONDS_MAX, self._end_if_idle, port, client, flow)
        return flow

    def _from_service(self, port: _Port, client: Client, flow: _Flow) -> None:
        flow.used_at = asyncio.get_running_loop().time()
        for _ in range(READS_AT_ONCE_MAX):
            try:
                data = flow.socket.recv(DATAGRAM_BYTES)
            except BlockingIOError:
                return
            except OSError:
                # The service's port is closed. The next datagram may find it open.
                self._end(port, client, flow)
                return
            _send(partial(_send_to, port.socket, client), data)

    def _end_if_idle(self, port: _Port, client: Client, flow: _Flow) -> None:
        loop = asyncio.get_running_loop()
        if port.flows.get(client) is not flow:
            return
        left = flow.used_at + IDLE_SECONDS_MAX - loop.time()
        if left > 0:
            loop.call_later(left, self._end_if_idle, port, client, flow)
        else:
            self._end(port, client, flow)

    def _end(self, port: _Port, client: Client, flow: _Flow) -> None:
        if port.flows.get(client) is flow:
            del port.flows[client]
            self._flows -= 1
            asyncio.get_running_loop().remove_reader(flow.socket)
            flow.socket.close()

    def _close(self, port: _Port) -> None:
        for client, flow in list(port.flows.items()):
            self._end(port, client, flow)
        asyncio.get_running_loop().remove_reader(port.socket)
        port.socket.close()


def _send(send: Callable[[bytes], int], data: bytes) -> None:
    """A datagram that cannot be sent is lost, as on any network."""
    try:
        send(data)
    except OSError:
        pass


def _send_to(sock: socket.socket, client: Client, data: bytes) -> int:
    return sock.sendto(data, client)

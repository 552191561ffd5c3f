"""Bytes between ingresses and their backends, by tenant: what they are charged for."""

from __future__ import annotations

import threading
from typing import Protocol

from msgspec import Struct


class CountedConnection(Protocol):
    """A connection to a backend."""

    @property
    def sent_bytes(self) -> int: ...
    @property
    def received_bytes(self) -> int: ...


class RelayedBytes(Struct):
    to_pods: int = 0
    from_pods: int = 0


class IngressTraffic:
    """Connections are opened and closed in the ingress' thread, and read in another one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[int, tuple[str, CountedConnection, RelayedBytes]] = {}
        """By the connection's identity: its tenant, and what of it was counted."""
        self._counted: dict[str, RelayedBytes] = {}

    def opened(self, tenant: str, connection: CountedConnection) -> None:
        with self._lock:
            self._open[id(connection)] = tenant, connection, RelayedBytes()

    def closed(self, connection: CountedConnection) -> None:
        """Idempotent."""
        with self._lock:
            if id(connection) in self._open:
                self._count(*self._open.pop(id(connection)))

    def take(self) -> dict[str, RelayedBytes]:
        """What was relayed since the last call, also on connections that are still open."""
        with self._lock:
            for each in self._open.values():
                self._count(*each)
            counted, self._counted = self._counted, {}
            return counted

    def _count(self, tenant: str, connection: CountedConnection, before: RelayedBytes) -> None:
        sent, received = connection.sent_bytes, connection.received_bytes
        if (sent, received) == (before.to_pods, before.from_pods):
            return
        total = self._counted.setdefault(tenant, RelayedBytes())
        total.to_pods += sent - before.to_pods
        total.from_pods += received - before.from_pods
        before.to_pods, before.from_pods = sent, received

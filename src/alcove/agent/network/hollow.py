"""The network of a hollow node: pods have the addresses of ring0's endpoints, but no namespaces or veths."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Collection

from alcove.agent.network.attachment import Attachment, NetworkNotReady
from alcove.agent.podkey import PodKey
from alcove.api.ids import SYSTEM
from alcove.api.objects import Object
from alcove.client.changes import ChangeType, ObjectChange
from alcove.client.client import ListSelection
from alcove.client.keys import HOME
from alcove.client.planes import Planes
from alcove.client.resources import VPC_ENDPOINTS
from alcove.network.endpoints import by_owner, nic_of
from alcove.network.owners import OwnerRef

ENDPOINT_SECONDS_MAX = 30.0
"""Long, because waiting is cheaper than retrying, and endpoints take a while if thousands of pods start
together."""


class HollowNetwork:
    """The network of one node, or, without a name, of many: then it watches all endpoints."""

    def __init__(self, planes: Planes, node: str = "", address: str = "") -> None:
        self._address = address
        self._attached: set[PodKey] = set()
        self._waiting: dict[str, asyncio.Event] = {}
        """Events of pods that wait for their endpoint, by uid."""
        self._endpoints = planes.mirror(
            ListSelection(VPC_ENDPOINTS, fields=f"spec.droplet={node}" if node else ""),
            {"owner": by_owner},
            tenant=SYSTEM,
            only=HOME,
        )
        self._endpoints.subscribe(self._changed)

    async def run(self) -> None:
        """Does nothing until cancelled: the interface requires it."""
        await asyncio.Event().wait()

    async def attach(self, key: PodKey, pod: Object) -> Attachment:
        if pod["spec"].get("hostNetwork"):
            return Attachment("", (self._address,) if self._address else ())
        event = self._waiting.setdefault(key.uid, asyncio.Event())
        try:
            async with asyncio.timeout(ENDPOINT_SECONDS_MAX):
                while not (addresses := self._addresses(key)):
                    event.clear()
                    await event.wait()
        except TimeoutError:
            raise NetworkNotReady("the pod has no endpoint on this node yet") from None
        finally:
            self._waiting.pop(key.uid, None)
        self._attached.add(key)
        return Attachment("", addresses)

    async def detach(self, key: PodKey) -> None:
        self._attached.discard(key)

    def attached(self) -> Collection[PodKey]:
        return set(self._attached)

    async def dial(self, key: PodKey, port: int) -> socket.socket:
        raise ConnectionRefusedError(f"{key.name} is hollow: no process is listening on port {port}")

    def environment(self, key: PodKey, pod: Object) -> dict[str, str]:
        return {}

    def _addresses(self, key: PodKey) -> tuple[str, ...]:
        owner = OwnerRef(key.tenant, key.namespace, key.name)
        nics = (nic_of(each) for each in self._endpoints.find("owner", HOME, SYSTEM, key.uid))
        return tuple(str(nic.address.ip) for nic in nics if nic is not None and nic.pod == owner)

    def _changed(self, change: ObjectChange) -> None:
        if change.kind is not ChangeType.DELETED:
            for uid in by_owner(change.obj):
                if uid in self._waiting:
                    self._waiting[uid].set()

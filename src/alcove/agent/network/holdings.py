"""Some of ring0's endpoints, kept as values: those of one network, or those of a subnet that this node bounces."""

from collections.abc import Callable

from alcove.agent.network.fabric import Nodes, located
from alcove.agent.network.following import Following
from alcove.api.ids import SYSTEM
from alcove.client.changes import Change, Kind
from alcove.client.client import Selection
from alcove.client.keys import HOME
from alcove.client.planes import Planes
from alcove.client.resources import VPC_ENDPOINTS
from alcove.dataplane.model import Endpoint
from alcove.network.endpoints import Holding, holding_of

Told = Callable[[Holding], None]
"""With a holding that came, changed or went."""


class Holdings:
    def __init__(self, planes: Planes, fields: str, told: Told, synced: Callable[[], None]) -> None:
        """`fields` select the endpoints; `synced` is called when all have been seen once."""
        self._planes = planes
        self._told = told
        self._all: dict[str, Holding] = {}
        self._owned: dict[str, dict[str, Holding]] = {}
        self._endpoints: tuple[Endpoint, ...] | None = None
        self._nodes: Nodes = {}
        self._mirror = planes.mirror(Selection(VPC_ENDPOINTS, fields=fields), tenant=SYSTEM, only=HOME)
        self._mirror.subscribe(self._changed)
        self._following = Following(synced)
        self._following.add(self._mirror)

    def is_synced(self) -> bool:
        return self._mirror.is_synced(HOME)

    async def close(self) -> None:
        self._following.close()
        await self._planes.drop(self._mirror)

    def of(self, owner_uid: str) -> list[Holding]:
        return list(self._owned.get(owner_uid, {}).values())

    def all(self) -> list[Holding]:
        return list(self._all.values())

    def endpoints(self, nodes: Nodes) -> tuple[Endpoint, ...]:
        """Where the addresses are. The same tuple as long as nothing has changed."""
        if self._endpoints is None or self._nodes is not nodes:
            found = (located(each, nodes) for each in self._all.values())
            self._endpoints = tuple(each for each in found if each is not None)
            self._nodes = nodes
        return self._endpoints

    def _changed(self, change: Change) -> None:
        holding = holding_of(change.obj)
        before = self._all.pop(holding.name, None)
        if before is not None:
            owned = self._owned[before.owner_uid]
            del owned[before.name]
            if not owned:
                del self._owned[before.owner_uid]
        if change.kind is not Kind.DELETED:
            self._all[holding.name] = holding
            self._owned.setdefault(holding.owner_uid, {})[holding.name] = holding
        if before != holding or change.kind is Kind.DELETED:
            self._endpoints = None
            self._told(holding)

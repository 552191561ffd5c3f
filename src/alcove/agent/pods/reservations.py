"""What ring0 has reserved on this node for the pods of dedicated planes (`api/escrow.py`).

A plane's API server may be anybody's, and may say that any pod is bound to any node. The scheduler reserves in ring0 what
it gives to a plane; a pod beyond that is not started, however much of the node is free.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from alcove.agent.podkey import PodKey
from alcove.agent.pods.executor import PodSetupError
from alcove.api import escrow
from alcove.api.errors import ApiError, NotFound
from alcove.api.ids import SYSTEM, TenantId
from alcove.api.objects import Object
from alcove.api.quantity import Quantity
from alcove.client.client import Client
from alcove.client.errors import ClientError
from alcove.client.keys import PlaneId
from alcove.client.resources import CONFIG_MAPS

READ_SECONDS_MIN = 1.0
"""Pods that wait for a reservation read it at most so often, all together."""

Amounts = Mapping[str, Quantity]


class NodeReservations:
    """Belongs to one event loop."""

    def __init__(
        self,
        client: Client,
        node: str,
        serving: Callable[[TenantId], PlaneId],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`client` is the home plane's; `serving` tells which plane serves a tenant."""
        self._client = client
        self._serving = serving
        self._node = node
        self._clock = clock
        self._record: Object = {}
        self._read_at = -READ_SECONDS_MIN

    def plane_of(self, key: PodKey) -> PlaneId:
        """The plane that the pod's requests are counted for."""
        return self._serving(key.tenant)

    async def check(self, plane: PlaneId, requested: Amounts) -> None:
        """Raises PodSetupError if less is reserved for the plane than its pods request."""
        if not self.covers(plane, requested) and self._clock() - self._read_at >= READ_SECONDS_MIN:
            await self._read()
        if not self.covers(plane, requested):
            message = "ring0's scheduler has reserved nothing on this node for the pod"
            raise PodSetupError("NotReserved", message)

    def covers(self, plane: PlaneId, requested: Amounts) -> bool:
        """Whether as much was reserved for the plane when the record was last read."""
        reserved = escrow.recorded(self._record, plane)
        return all(
            (amount.milli if name == "cpu" else amount.value) <= reserved.get(name, 0)
            for name, amount in requested.items()
        )

    async def _read(self) -> None:
        self._read_at = self._clock()
        try:
            self._record = await self._client.get(SYSTEM, CONFIG_MAPS, self._node, namespace=escrow.NAMESPACE)
        except NotFound:
            self._record = {}
        except (ApiError, ClientError) as error:
            raise PodSetupError("NotReserved", "failed to read the node's reservations") from error

"""Allocates the cluster IPs and node ports of services in the transaction that writes the service, so that the
answer has them; releases them in the transaction that removes the service or no longer needs them."""

import random
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from functools import partial

from alcove.api.ids import SYSTEM, GroupResource, Key, TenantId
from alcove.api.kinds.core.services import types
from alcove.api.objects import Object
from alcove.api.resources import IP_ADDRESSES, SERVICES
from alcove.apiserver.admission.base import Attributes, Operation, Plugin
from alcove.apiserver.admission.resourcequota.plugin import KeyedLocks
from alcove.apiserver.admission.services.claims import Setter
from alcove.apiserver.admission.services.clusterips import ClusterIps
from alcove.apiserver.admission.services.nodeports import NodePorts
from alcove.apiserver.cache.cache import Cache
from alcove.store.base import WriteOp


class ServiceAllocation(Plugin):
    def __init__(
        self,
        cache: Cache,
        clock: Callable[[], float],
        home: TenantId = SYSTEM,
        chance: random.Random | None = None,
    ) -> None:
        """`home` is the tenant whose server this is; node ports are claimed only in ring0's own."""
        chance = chance or random.Random()
        self._cluster_ips = ClusterIps(cache, clock, chance)
        self._node_ports = NodePorts(cache, clock, chance) if home == SYSTEM else None
        self._locks = KeyedLocks()

    def handles(self, operation: Operation, resource: GroupResource, subresource: str) -> bool:
        if resource == IP_ADDRESSES:
            return operation is Operation.DELETE
        return operation is not Operation.CONNECT and resource == SERVICES

    async def validate(self, attributes: Attributes) -> None:
        if attributes.resource == IP_ADDRESSES:
            self._cluster_ips.check_unused(attributes)
        else:
            self._allocate(attributes)

    def _allocate(self, attributes: Attributes) -> None:
        new, old = attributes.obj, attributes.old
        if old is not None and (new is None or "deletionTimestamp" in new["metadata"]):
            attributes.on_removal += self._released(attributes.tenant, old, ())
        if new is None or attributes.subresource or "deletionTimestamp" in new["metadata"]:
            return
        setter = Setter()
        attributes.undo.append(setter.undo)
        self._cluster_ips.allocate(attributes, setter)
        if self._node_ports is not None and types.has_node_ports(new["spec"]):
            count = self._node_ports.allocate(attributes, setter)
            if count and attributes.tenant != SYSTEM:
                self._node_ports.check_share(attributes.tenant, attributes.name, count)
                attributes.joins.append(partial(self._count_again, attributes, count))
        if old is not None:
            attributes.also += self._released(attributes.tenant, old, set(self._held(attributes.tenant, new)))

    @asynccontextmanager
    async def _count_again(
        self, attributes: Attributes, count: Counter[str], _op: WriteOp
    ) -> AsyncIterator[Sequence[WriteOp]]:
        """Writers of one tenant claim ports one after the other: each counts those of the writer before it."""
        assert self._node_ports is not None
        async with self._locks.take(attributes.tenant):
            self._node_ports.check_share(attributes.tenant, attributes.name, count)
            yield ()

    def _held(self, tenant: TenantId, service: Object) -> Iterator[Key]:
        yield from self._cluster_ips.held(tenant, service)
        if self._node_ports is not None:
            yield from self._node_ports.held(service)

    def _released(self, tenant: TenantId, old: Object, kept: set[Key] | tuple[()]) -> list[WriteOp]:
        """The operations that delete the claims of `old`, except those that are `kept`."""
        ops: list[WriteOp] = []
        for key in self._cluster_ips.held(tenant, old):
            ops += self._cluster_ips.release(key, old) if key not in kept else ()
        if self._node_ports is not None:
            for key in self._node_ports.held(old):
                ops += self._node_ports.release(key, old) if key not in kept else ()
        return ops

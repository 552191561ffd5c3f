"""The DNS names of one network: its zone, updated as services, EndpointSlices and addresses change.

The next query sees a change. Names of a service with many endpoints are computed beside the event loop, and seen as soon as
they are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import perf_counter

from alcove.agent.network.endpoint_index import EndpointIndex
from alcove.agent.network.ring0_objects import NetworkBacking
from alcove.agent.network.tenant_view import ServiceId, TenantNetworkView
from alcove.agent.network.tenant_work import TenantWork
from alcove.api import objects
from alcove.api.kinds.core.networks import network_of
from alcove.api.objects import Object
from alcove.client.changes import ChangeType, ObjectChange
from alcove.dns import objects as dns_objects
from alcove.dns.model import DnsPod, NetworkId, ObjectId
from alcove.dns.record_budget import RecordBudget
from alcove.dns.zone import DnsZone
from alcove.network.owners import OwnerRef

TURN_SECONDS = 0.002
"""For which services are read at a start before other tasks run."""


class DnsNames:
    def __init__(
        self,
        tenant: TenantNetworkView,
        backing: NetworkBacking,
        domain: str,
        work: TenantWork,
        budget: RecordBudget,
        changed: Callable[[], None],
    ) -> None:
        """`fill` or `begin_filling` must follow. `changed` is called when the zone is filled."""
        owner = backing.owner
        self.zone = DnsZone(
            NetworkId(owner.tenant, owner.name), backing.prefixes, domain, budget, self._compute_later
        )
        self._network = owner.name
        self._tenant = tenant
        self._work = work
        self._changed = changed
        self._unread: list[ServiceId] = tenant.service_ids()
        """Services that were there before, and are not in the zone yet."""
        self._waiting: dict[ObjectId, None] = {}
        """Services whose names take long, and have changed."""
        self._is_computing = False
        self._is_closed = False
        self._refused: frozenset[ServiceId] = frozenset()

    def is_filled(self) -> bool:
        return not self._unread

    def fill(self) -> None:
        while self._unread:
            self._read_one()

    def begin_filling(self) -> None:
        """As `fill`, in turns with other tasks."""
        if self._unread:
            self._work.spawn("DNS names", self._fill_in_turns())

    async def _fill_in_turns(self) -> None:
        began = perf_counter()
        while self._unread and not self._is_closed:
            self._read_one()
            if perf_counter() - began > TURN_SECONDS:
                await asyncio.sleep(0)
                began = perf_counter()
        self._changed()

    def _read_one(self) -> None:
        service = self._unread.pop()
        obj = self._tenant.service(service)
        if obj is not None:
            self._put(ObjectId(*service), obj)

    def close(self) -> None:
        self._is_closed = True
        self._waiting.clear()
        self.zone.close()

    # Changes

    def put_service(self, change: ObjectChange) -> None:
        service = ObjectId(change.key.namespace, change.key.name)
        self._put(service, change.obj if change.kind is not ChangeType.DELETED else None)

    def _put(self, id_: ObjectId, obj: Object | None) -> None:
        service = dns_objects.service_of(obj) if obj is not None else None
        if obj is None or service is None or network_of(obj) != self._network:
            service = None
        had_slices = self.zone.has_headless(id_)
        if had_slices and (service is None or not service.headless):
            self.zone.drop_slices_of(id_)
        if service is None:
            self.zone.drop_service(id_)
            return
        self.zone.put_service(service)
        if service.headless and not had_slices:
            for each in self._tenant.slices_of((id_.namespace, id_.name)):
                self._put_slice(ObjectId(id_.namespace, each["metadata"]["name"]), each)

    def put_slice(self, change: ObjectChange) -> None:
        slice_id = ObjectId(change.key.namespace, change.key.name)
        if change.kind is ChangeType.DELETED or not self._is_published(change):
            self.zone.drop_slice(slice_id)
        else:
            self._put_slice(slice_id, change.obj)

    def _is_published(self, change: ObjectChange) -> bool:
        """Only headless services of this network have names of their endpoints. A tenant's slices are many."""
        service = objects.labels(change.obj).get(dns_objects.SERVICE_LABEL, "")
        return self.zone.has_headless(ObjectId(change.key.namespace, service))

    def _put_slice(self, slice_id: ObjectId, obj: Object) -> None:
        endpoint_slice = dns_objects.slice_of(obj)
        if endpoint_slice is None:
            self.zone.drop_slice(slice_id)
        else:
            self.zone.put_slice(endpoint_slice)

    def put_pod(self, pod: OwnerRef, allocations: EndpointIndex, uid: str) -> None:
        addresses = tuple(each.address for each in allocations.for_owner(uid) if each.address is not None)
        id_ = ObjectId(pod.namespace, pod.name)
        if addresses:
            self.zone.put_pod(DnsPod(id_, addresses))
        else:
            self.zone.drop_pod(id_)

    def refused(self) -> list[ServiceId]:
        """Services that have no names since the last call, because they do not fit into their tenant's share. Those that
        fit again are tried again."""
        self.zone.retry_refused()
        now = frozenset((each.namespace, each.name) for each in self.zone.refused_services())
        new, self._refused = sorted(now - self._refused), now
        return new

    # Names that take long

    def _compute_later(self, service: ObjectId) -> None:
        self._waiting[service] = None
        if not self._is_computing:
            self._is_computing = True
            self._work.spawn("DNS names", self._compute())

    async def _compute(self) -> None:
        try:
            while self._waiting:
                service = next(iter(self._waiting))
                del self._waiting[service]
                for change in self.zone.changes(service):
                    found = await self._work.compute(self.zone.network.tenant, change)
                    if not self._is_closed:
                        self.zone.replace(found)
        finally:
            self._is_computing = False

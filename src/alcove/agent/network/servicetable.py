"""The services of one network, updated one by one: a change of one among thousands does not recompute the
others. What a service needs is counted first; only those that fit into the share of their tenant are computed."""

import logging
from collections.abc import Iterable

from alcove.agent.ingress.health_checks import HealthCheck
from alcove.agent.network.endpoint_index import EndpointIndex
from alcove.agent.network.services import (
    NodePerspective,
    ServedServices,
    ServiceDemand,
    ServiceGrant,
    demand,
    granted,
    served,
)
from alcove.agent.network.tenant_view import ServiceId, TenantNetworkView
from alcove.agent.shares import Amounts, add
from alcove.api.kinds.core.networks import network_of
from alcove.api.objects import Object
from alcove.dataplane.address import Prefix
from alcove.dataplane.model import DataplaneService, NodePort

log = logging.getLogger(__name__)

_INVALID = (ValueError, KeyError, TypeError, AttributeError)
"""What a service raises that is not as Kubernetes validates it: dedicated planes may have any."""


class ServiceTable:
    def __init__(self, tenant: TenantNetworkView, allocations: EndpointIndex) -> None:
        self._tenant = tenant
        self._allocations = allocations
        self._demands: dict[ServiceId, ServiceDemand] = {}
        self._served: dict[ServiceId, ServedServices] = {}
        """Those that fit."""
        self._unread: set[ServiceId] = set()
        """Services that may have changed since they were last computed."""
        self._stale: set[ServiceId] = set()
        self._perspective: NodePerspective | None = None
        self.amounts: Amounts = (0, 0)
        """What all services together need, as `ServiceDemand.amounts`."""
        self.version = 0
        """Counts the changes of what services need."""
        self._excluded: frozenset[ServiceId] = frozenset()
        self._is_changed = False
        self.services: tuple[DataplaneService, ...] = ()
        self.node_ports: tuple[NodePort, ...] = ()
        self.prefixes: tuple[Prefix, ...] = ()
        self.health_checks: tuple[HealthCheck, ...] = ()

    def touch(self, services: Iterable[ServiceId]) -> None:
        """Marks services that may have changed."""
        self._stale.update(services)

    def refresh(self, perspective: NodePerspective) -> None:
        """Reads all services that have changed since the last call; `exclude` comes next."""
        if self._perspective != perspective:
            all_services = self._perspective is None or _shared_facts(self._perspective) != _shared_facts(
                perspective
            )
            self._stale.update(
                each for each, needed in self._demands.items() if all_services or needed.is_local
            )
            self._perspective = perspective
        for service in self._stale:
            self._update(service, perspective)
        self._stale.clear()

    def requests(self) -> Iterable[tuple[str, ServiceId, Amounts]]:
        """Age, name and amounts of every service."""
        return ((each.age, service, each.amounts) for service, each in self._demands.items())

    def exclude(self, excluded: frozenset[ServiceId]) -> frozenset[ServiceId]:
        """Updates `services` and the other tuples, without these services. Returns those that were not
        excluded before."""
        if not (self._unread or self._is_changed) and excluded == self._excluded:
            return frozenset()
        new = excluded - self._excluded
        for service in (*self._unread, *(self._excluded - excluded)):
            if service in self._demands and service not in excluded:
                now = self._read(service)
                self._is_changed |= self._served.get(service) != now
                self._served[service] = now
        for service in excluded:
            self._is_changed |= self._served.pop(service, None) is not None
        self._unread.clear()
        self._excluded = excluded
        if self._is_changed:
            self._is_changed = False
            self._collect()
        return new

    def _collect(self) -> None:
        fitting = [self._served[each] for each in sorted(self._served)]
        self.services = tuple(service for each in fitting for service in each.services)
        self.node_ports = tuple(node_port for each in fitting for node_port in each.node_ports)
        self.prefixes = tuple(dict.fromkeys(prefix for each in fitting for prefix in each.prefixes))
        self.health_checks = tuple(each.health_check for each in fitting if each.health_check is not None)

    def _update(self, service: ServiceId, perspective: NodePerspective) -> None:
        """Counts what the service needs now."""
        before, now = self._demands.get(service), None
        obj = self._tenant.service(service)
        try:
            if obj is not None and network_of(obj) == perspective.backing.owner.name:
                now = demand(perspective, obj, self._tenant.slices_of(service), self._grant(obj))
        except _INVALID as error:
            # Other services and other tenants must not be affected.
            log.warning("invalid service ignored", extra={"service": service, "error": str(error)})
        self._unread.add(service)
        if now == before:
            return
        for needed, sign in ((before, -1), (now, 1)):
            if needed is not None:
                entries, doors = needed.amounts
                self.amounts = add(self.amounts, (sign * entries, sign * doors))
        self.version += 1
        if now is None:
            del self._demands[service]
            self._is_changed |= self._served.pop(service, None) is not None
        else:
            self._demands[service] = now

    def _read(self, service: ServiceId) -> ServedServices:
        obj, perspective = self._tenant.service(service), self._perspective
        try:
            if obj is not None and perspective is not None:
                return served(perspective, obj, self._tenant.slices_of(service), self._grant(obj))
        except _INVALID as error:
            log.warning("invalid service ignored", extra={"service": service, "error": str(error)})
        return ServedServices()

    def _grant(self, service: Object) -> ServiceGrant:
        return granted(self._allocations.for_owner(service["metadata"]["uid"]))


def _shared_facts(perspective: NodePerspective) -> tuple[object, ...]:
    """All fields except the local addresses, on which only services with local traffic policies depend."""
    return perspective.backing, perspective.service_ranges, perspective.nodes, perspective.has_node_address

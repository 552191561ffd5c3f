"""The services of one network, updated one by one: a change of one among thousands does not recompute the
others."""

import logging
from collections.abc import Iterable

from alcove.agent.ingress.health_checks import HealthCheck
from alcove.agent.network.endpoint_index import EndpointIndex
from alcove.agent.network.services import NodePerspective, ServedServices, granted, served
from alcove.agent.network.tenant_view import ServiceId, TenantNetworkView
from alcove.agent.shares import Amounts, add
from alcove.api.kinds.core.networks import network_of
from alcove.dataplane.address import Prefix
from alcove.dataplane.model import DataplaneService, NodePort

log = logging.getLogger(__name__)


class ServiceTable:
    def __init__(self, tenant: TenantNetworkView, allocations: EndpointIndex) -> None:
        self._tenant = tenant
        self._allocations = allocations
        self._served: dict[ServiceId, ServedServices] = {}
        self._stale: set[ServiceId] = set()
        self._perspective: NodePerspective | None = None
        self.amounts: Amounts = (0, 0)
        """What all services together need, as `ServedServices.amounts`."""
        self.version = 0
        """Counts the changes of services."""
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
                each for each, cached in self._served.items() if all_services or cached.is_local
            )
            self._perspective = perspective
        for service in self._stale:
            self._is_changed |= self._update(service, perspective)
        self._stale.clear()

    def requests(self) -> Iterable[tuple[str, ServiceId, Amounts]]:
        """Age, name and amounts of every service."""
        return ((each.age, service, each.amounts) for service, each in self._served.items())

    def exclude(self, excluded: frozenset[ServiceId]) -> frozenset[ServiceId]:
        """Updates `services` and the other tuples, without these services. Returns those that were not
        excluded before."""
        if not self._is_changed and excluded == self._excluded:
            return frozenset()
        new = excluded - self._excluded
        fitting = [self._served[each] for each in sorted(self._served.keys() - excluded)]
        self.services = tuple(service for each in fitting for service in each.services)
        self.node_ports = tuple(node_port for each in fitting for node_port in each.node_ports)
        self.prefixes = tuple(dict.fromkeys(prefix for each in fitting for prefix in each.prefixes))
        self.health_checks = tuple(each.health_check for each in fitting if each.health_check is not None)
        self._excluded, self._is_changed = excluded, False
        return new

    def _update(self, service: ServiceId, perspective: NodePerspective) -> bool:
        before, now = self._served.get(service), None
        try:
            obj = self._tenant.service(service)
            if obj is not None and network_of(obj) == perspective.backing.owner.name:
                grant = granted(self._allocations.for_owner(obj["metadata"]["uid"]))
                now = served(perspective, obj, self._tenant.slices_of(service), grant)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            # Other services and other tenants must not be affected.
            log.warning("invalid service ignored", extra={"service": service, "error": str(error)})
        if now == before:
            return False
        for served_service, sign in ((before, -1), (now, 1)):
            if served_service is not None:
                entries, doors = served_service.amounts
                self.amounts = add(self.amounts, (sign * entries, sign * doors))
        self.version += 1
        if now is None:
            del self._served[service]
        else:
            self._served[service] = now
        return True


def _shared_facts(perspective: NodePerspective) -> tuple[object, ...]:
    """All fields except the local addresses, on which only services with local traffic policies depend."""
    return perspective.backing, perspective.service_ranges, perspective.nodes, perspective.has_node_address

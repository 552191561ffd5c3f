"""The services of one network, updated one by one: a change of one among thousands does not recompute the
others."""

import logging
from collections.abc import Iterable

from alcove.agent.network.endpoint_index import EndpointIndex
from alcove.agent.network.services import NodePerspective, ServedServices, granted, served
from alcove.agent.network.tenant_view import ServiceId, TenantNetworkView
from alcove.api.kinds.core.networks import network_of
from alcove.dataplane.address import Prefix
from alcove.dataplane.model import DataplaneService, NodePort

log = logging.getLogger(__name__)

ENTRIES_MAX = 50_000
"""Most ports and backends of services, together, of one network on one node."""


class ServiceTable:
    def __init__(self, tenant: TenantNetworkView, allocations: EndpointIndex) -> None:
        self._tenant = tenant
        self._allocations = allocations
        self._served: dict[ServiceId, ServedServices] = {}
        self._stale: set[ServiceId] = set()
        self._perspective: NodePerspective | None = None
        self.services: tuple[DataplaneService, ...] = ()
        self.node_ports: tuple[NodePort, ...] = ()
        self.prefixes: tuple[Prefix, ...] = ()

    def touch(self, services: Iterable[ServiceId]) -> None:
        """Marks services that may have changed."""
        self._stale.update(services)

    def refresh(self, perspective: NodePerspective) -> None:
        """Updates `services`, `node_ports` and `prefixes` with all changes since the last call."""
        if self._perspective != perspective:
            all_services = self._perspective is None or _shared_facts(self._perspective) != _shared_facts(
                perspective
            )
            self._stale.update(
                each for each, cached in self._served.items() if all_services or cached.is_local
            )
            self._perspective = perspective
        changed = False
        for service in self._stale:
            changed |= self._update(service, perspective)
        self._stale.clear()
        if changed:
            fitting = self._fitting()
            self.services = tuple(service for each in fitting for service in each.services)
            self.node_ports = tuple(node_port for each in fitting for node_port in each.node_ports)
            self.prefixes = tuple(dict.fromkeys(prefix for each in fitting for prefix in each.prefixes))

    def _fitting(self) -> list[ServedServices]:
        """The services within ENTRIES_MAX, by name: all networks share the kernel's tables."""
        fitting: list[ServedServices] = []
        entries = 0
        for service in sorted(self._served):
            served_service = self._served[service]
            entries += sum(1 + len(each.backends) for each in served_service.services)
            if entries > ENTRIES_MAX:
                log.warning("network has too many services; ignoring the rest", extra={"first": service})
                break
            fitting.append(served_service)
        return fitting

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
        if now is None:
            del self._served[service]
        else:
            self._served[service] = now
        return True


def _shared_facts(perspective: NodePerspective) -> tuple[object, ...]:
    """All fields except the local addresses, on which only services with local traffic policies depend."""
    return perspective.backing, perspective.nodes, perspective.has_node_address

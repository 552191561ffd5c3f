"""The services of one network, kept up to date one by one: thousands may be there when one of them changes."""

import logging
from collections.abc import Iterable

from alcove.agent.network.endpoint_index import EndpointIndex
from alcove.agent.network.grants import granted
from alcove.agent.network.services import NodePerspective, ServedServices, served
from alcove.agent.network.tenant_view import ServiceId, TenantNetworkView
from alcove.api.kinds.core.networks import network_of
from alcove.dataplane.address import Prefix
from alcove.dataplane.model import DataplaneService, NodePort

log = logging.getLogger(__name__)

ENTRIES_MAX = 50_000
"""Services' ports and their backends together, of one network on one node."""


class ServiceTable:
    def __init__(self, tenant: TenantNetworkView, holdings: EndpointIndex) -> None:
        self._tenant = tenant
        self._holdings = holdings
        self._served: dict[ServiceId, ServedServices] = {}
        self._stale: set[ServiceId] = set()
        self._standpoint: NodePerspective | None = None
        self.services: tuple[DataplaneService, ...] = ()
        self.node_ports: tuple[NodePort, ...] = ()
        self.prefixes: tuple[Prefix, ...] = ()

    def touch(self, services: Iterable[ServiceId]) -> None:
        """Something about these may have changed."""
        self._stale.update(services)

    def refresh(self, standpoint: NodePerspective) -> None:
        """Puts what changed into `services`, `node_ports` and `prefixes`."""
        if self._standpoint != standpoint:
            everybody = self._standpoint is None or _without_here(self._standpoint) != _without_here(
                standpoint
            )
            self._stale.update(each for each, known in self._served.items() if everybody or known.is_local)
            self._standpoint = standpoint
        changed = False
        for service in self._stale:
            changed |= self._renew(service, standpoint)
        self._stale.clear()
        if changed:
            found = self._fitting()
            self.services = tuple(one for each in found for one in each.services)
            self.node_ports = tuple(one for each in found for one in each.node_ports)
            self.prefixes = tuple(dict.fromkeys(one for each in found for one in each.prefixes))

    def _fitting(self) -> list[ServedServices]:
        """The services that there is room for: the kernel's tables are for all networks."""
        found: list[ServedServices] = []
        entries = 0
        for service in sorted(self._served):
            one = self._served[service]
            entries += sum(1 + len(each.backends) for each in one.services)
            if entries > ENTRIES_MAX:
                log.warning("more services than a network may have here", extra={"first": service})
                break
            found.append(one)
        return found

    def _renew(self, service: ServiceId, standpoint: NodePerspective) -> bool:
        before, now = self._served.get(service), None
        try:
            obj = self._tenant.service(service)
            if obj is not None and network_of(obj) == standpoint.backing.owner.name:
                grant = granted(self._holdings.of(obj["metadata"]["uid"]))
                now = served(standpoint, obj, self._tenant.slices_of(service), grant)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            # Not a reason to stop for other services, or other tenants.
            log.warning("service not understood", extra={"service": service, "error": str(error)})
        if now == before:
            return False
        if now is None:
            del self._served[service]
        else:
            self._served[service] = now
        return True


def _without_here(standpoint: NodePerspective) -> tuple[object, ...]:
    return standpoint.backing, standpoint.nodes, standpoint.has_node_address

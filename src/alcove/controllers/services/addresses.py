"""Services that the API server could not give all addresses and ports yet: it allocates them in the request that
writes the service, but not while the range of the service's network is unknown.

Such a service is written again, unchanged, when its network is provisioned.
"""

from __future__ import annotations

from collections.abc import Iterable

from alcove.api import node_ports, service_ips
from alcove.api.errors import Forbidden, InternalError, Invalid
from alcove.api.kinds.core.networks import network_of
from alcove.api.kinds.core.services import types
from alcove.api.objects import Object
from alcove.client.changes import ChangeType, ObjectChange
from alcove.client.keys import HOME, ObjectKey
from alcove.client.resources import NETWORKS, SERVICES
from alcove.controllers.controller import DONE, Controller, ControllerContext, Result
from alcove.controllers.network.networks import JOINED
from alcove.controllers.services.claiming import FAILED, RETRY_SECONDS


class ServiceAddressController(Controller):
    name = "service-address"
    resource = SERVICES

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._networks = self.mirror(NETWORKS)
        self._services = self.mirror(SERVICES, {"joined": JOINED})
        self.on(self._services, self._of_service)
        self.on(self._networks, self._of_network)

    def _of_service(self, change: ObjectChange) -> Iterable[ObjectKey]:
        if change.kind is ChangeType.DELETED or not _lacks_something(change.key, change.obj):
            return ()
        return (change.key,)

    def _of_network(self, change: ObjectChange) -> Iterable[ObjectKey]:
        """The network's services, when its ranges become known or change."""
        if change.kind is ChangeType.DELETED:
            return ()
        if change.old is not None and _ranges(change.old) == _ranges(change.obj):
            return ()
        key = change.key
        return self._services.find_keys("joined", key.plane, key.tenant, key.name)

    async def reconcile(self, key: ObjectKey) -> Result:
        service = self._services.get(key)
        if (
            service is None
            or "deletionTimestamp" in service["metadata"]
            or not _lacks_something(key, service)
        ):
            return DONE
        network = self._networks.get(key.of(network_of(service), ""))
        if network is None:
            # The creation of the network enqueues the service.
            self._warn(key, service, f'network "{network_of(service)}" not found')
            return DONE
        if not _ranges(network) or service_ips.is_external(network):
            return DONE
        try:
            await self.client(key).update(key.tenant, SERVICES, service)
        except (Invalid, Forbidden, InternalError) as error:
            self._warn(key, service, error.message)
            return Result(after_seconds=RETRY_SECONDS)
        return DONE

    def _warn(self, key: ObjectKey, service: Object, message: str) -> None:
        regarding = {**service, "apiVersion": SERVICES.api_version, "kind": SERVICES.kind}
        self.events.warning(key.plane, regarding, FAILED, message)


def _ranges(network: Object) -> tuple[object, ...]:
    return service_ips.known_ranges(network) if "deletionTimestamp" not in network["metadata"] else ()


def _lacks_something(key: ObjectKey, service: Object) -> bool:
    """Whether the API server of this plane would allocate something."""
    spec = service["spec"]
    if types.has_cluster_ip(spec) and not spec.get("clusterIP"):
        return True
    return key.plane == HOME and node_ports.lacks_port(spec)

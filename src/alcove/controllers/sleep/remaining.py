"""Whether pods of a dedicated tenant that is asleep have still to end, or to come back."""

from __future__ import annotations

from collections.abc import Iterable

from alcove.api.ids import SYSTEM, TenantId
from alcove.api.objects import Object, get
from alcove.client.keys import HOME, PlaneId
from alcove.client.resources import CONFIG_MAPS, PODS
from alcove.controllers.controller import Controller
from alcove.controllers.sleep.pods import RECORD
from alcove.controllers.workloads import pods

_ON_NODE, _OF_TENANT = "on node", "tenant"


class SleepersPods:
    def __init__(self, controller: Controller) -> None:
        self._planes = controller.context.planes
        self._pods = controller.mirror(PODS, {_ON_NODE: _on_node})
        self._records = controller.mirror(
            CONFIG_MAPS, {_OF_TENANT: _of_tenant}, tenant=SYSTEM, labels=f"{RECORD}=true", only=HOME
        )

    def remain(self, tenant: TenantId) -> bool | None:
        """Whether there are pods that have not ended, or have yet to come back. None if that is not known, because the
        controllers have not joined the tenant's plane."""
        plane = PlaneId(tenant)
        if plane not in self._planes.ids():
            return None
        on_nodes = self._pods.find_keys(_ON_NODE, plane, tenant, _ON_NODE)
        return bool(on_nodes or self._records.find_keys(_OF_TENANT, HOME, SYSTEM, tenant))


def _on_node(pod: Object) -> Iterable[str]:
    return (_ON_NODE,) if get(pod, "spec", "nodeName") and not pods.is_finished(pod) else ()


def _of_tenant(record: Object) -> Iterable[str]:
    return (record["data"]["tenant"],)

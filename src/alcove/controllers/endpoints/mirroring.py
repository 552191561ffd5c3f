"""Mirrors user-managed Endpoints of services without a selector to EndpointSlices, which data planes read.

Each slice has the addresses of one family and one set of ports. At most `PER_SUBSET_MAX` addresses of a
subset are mirrored, ready ones first.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator, Sequence

from alcove.api import objects
from alcove.api.kinds.core.networks import NETWORK_LABEL, network_of
from alcove.api.objects import Object, labels
from alcove.api.validation import same
from alcove.client.changes import ChangeType, ObjectChange
from alcove.client.keys import ObjectKey
from alcove.client.resources import ENDPOINTS, SERVICES
from alcove.controllers.controller import DONE, Controller, ControllerContext, Result
from alcove.controllers.endpoints.backends import is_of_previous
from alcove.controllers.endpoints.managed_slices import ManagedSlices
from alcove.controllers.endpoints.slice_packing import MANAGED_LABEL, NAME_LABEL, SlicePlan
from alcove.controllers.workloads.controller_refs import reference

MANAGER = "endpointslicemirroring-controller.k8s.io"
SKIP_LABEL = "endpointslice.kubernetes.io/skip-mirror"
LEADER = "control-plane.alpha.kubernetes.io/leader"
PER_SUBSET_MAX = 1000
_NOT_COPIED = (
    "kubectl.kubernetes.io/last-applied-configuration",
    "endpoints.kubernetes.io/last-change-trigger-time",
    LEADER,
)

_Kind = tuple[str, tuple[tuple[str, int, str, str], ...]]
"""(family, ports)"""


class EndpointSliceMirroring(Controller):
    name = "endpoint-slice-mirroring"
    resource = ENDPOINTS
    workers = 4

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._endpoints = self.mirror(ENDPOINTS)
        self._services = self.mirror(SERVICES)
        self._slices = ManagedSlices(self, MANAGER)
        self.on(self._endpoints, self._user_managed)
        self.on(self._services, self._with_endpoints)

    def _user_managed(self, change: ObjectChange) -> Iterable[ObjectKey]:
        """Skips Endpoints of services with a selector, which are most of them, and those that are not to be copied."""
        service = self._services.get(change.key)
        if service is None:
            return (change.key,)
        if service["spec"].get("selector"):
            return ()
        is_new = change.kind is ChangeType.ADDED
        is_left_alone = is_new and not is_copied(change.obj, service) and not self._slices.of(change.key)
        return () if is_left_alone else (change.key,)

    def _with_endpoints(self, change: ObjectChange) -> Iterable[ObjectKey]:
        """Skips services that have no Endpoints object."""
        return (change.key,) if change.key in self._endpoints else ()

    async def reconcile(self, key: ObjectKey) -> Result:
        existing = self._slices.of(key)
        endpoints, service = self._endpoints.get(key), self._services.get(key)
        if endpoints is None or service is None or not is_copied(endpoints, service):
            await self._slices.delete(key, existing)
        elif "deletionTimestamp" not in endpoints["metadata"]:
            await self._slices.carry_out(key, plan(endpoints, service, existing))
        return DONE


def is_copied(endpoints: Object, service: Object | None) -> bool:
    if service is None or (service.get("spec") or {}).get("selector") or is_of_previous(endpoints, service):
        return False
    return labels(endpoints).get(SKIP_LABEL) != "true" and LEADER not in objects.annotations(endpoints)


def plan(endpoints: Object, service: Object, existing: Sequence[Object]) -> SlicePlan:
    """Reuses existing slices with the same family and ports, and updates those whose endpoints differ."""
    result, remaining = SlicePlan(), list(existing)
    for kind, addresses in _desired_endpoints(endpoints).items():
        desired = _slice(endpoints, service, kind, addresses)
        match = next((each for each in remaining if _kind_of(each) == kind), None)
        if match is None:
            result.create.append(desired)
            continue
        remaining.remove(match)
        new = {**match, "endpoints": desired["endpoints"]}
        new["metadata"] = {
            **match["metadata"],
            "labels": desired["metadata"]["labels"],
            "annotations": desired["metadata"]["annotations"],
        }
        if not same(new, match):
            result.update.append(new)
    result.delete.extend(remaining)
    return result


def _desired_endpoints(endpoints: Object) -> dict[_Kind, dict[str, Object]]:
    """Endpoints by address. An address in two subsets with the same ports is one endpoint."""
    result: dict[_Kind, dict[str, Object]] = {}
    for subset in endpoints.get("subsets") or ():
        ports = tuple(sorted(_ports(subset.get("ports") or ())))
        for count, (address, is_ready) in enumerate(_addresses(subset)):
            family = _family(address.get("ip") or "")
            if family and count < PER_SUBSET_MAX:
                result.setdefault((family, ports), {}).setdefault(address["ip"], _endpoint(address, is_ready))
    return result


def _ports(ports: Sequence[Object]) -> Iterator[tuple[str, int, str, str]]:
    for port in ports:
        yield (
            port.get("name") or "",
            port.get("port") or 0,
            port.get("protocol") or "TCP",
            port.get("appProtocol") or "",
        )


def _addresses(subset: Object) -> Iterator[tuple[Object, bool]]:
    for address in subset.get("addresses") or ():
        yield address, True
    for address in subset.get("notReadyAddresses") or ():
        yield address, False


def _family(address: str) -> str:
    try:
        return f"IPv{ipaddress.ip_address(address).version}"
    except ValueError:
        return ""


def _endpoint(address: Object, is_ready: bool) -> Object:
    shown: Object = {"addresses": [address["ip"]], "conditions": {"ready": is_ready}}
    optional = {
        field: address[field] for field in ("hostname", "nodeName", "targetRef") if address.get(field)
    }
    return shown | optional


def _slice(endpoints: Object, service: Object, kind: _Kind, addresses: dict[str, Object]) -> Object:
    family, ports = kind
    metadata = endpoints["metadata"]
    shown = [
        {"name": name, "port": port, "protocol": protocol} | ({"appProtocol": app} if app else {})
        for name, port, protocol, app in ports
    ]
    return {
        "metadata": {
            "generateName": f"{metadata['name']}-",
            "namespace": metadata["namespace"],
            "labels": {
                **labels(endpoints),
                NAME_LABEL: metadata["name"],
                MANAGED_LABEL: MANAGER,
                NETWORK_LABEL: network_of(service),
            },
            "annotations": {
                name: value
                for name, value in objects.annotations(endpoints).items()
                if name not in _NOT_COPIED
            },
            "ownerReferences": [reference(ENDPOINTS, endpoints)],
        },
        "addressType": family,
        "ports": shown,
        "endpoints": [addresses[address] for address in sorted(addresses)],
    }


def _kind_of(slice_: Object) -> _Kind:
    return slice_.get("addressType", ""), tuple(sorted(_ports(slice_.get("ports") or ())))

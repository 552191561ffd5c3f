"""Distributes endpoints over EndpointSlices, changing as few slices as possible, with zones and topology hints.

Endpoints with the same ports and address family share slices of at most `PER_SLICE_MAX`. An endpoint stays
in its slice; new ones fill slices that have room; empty slices are deleted.

`trafficDistribution` of a service: `PreferClose` and `PreferSameZone` give each endpoint a hint for its
zone, `PreferSameNode` also one for its node. Endpoints that are not ready, or whose zone is unknown, have no
hint; if any endpoint has none, data planes ignore all hints.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct, field

from alcove.api.kinds.core.networks import NETWORK_LABEL, network_of
from alcove.api.objects import Object, get, labels
from alcove.api.validation import same
from alcove.client.changes import ChangeType, ObjectChange
from alcove.client.resources import SERVICES
from alcove.controllers.endpoints.backends import (
    HEADLESS_LABEL,
    EndpointBackend,
    families,
    host_name,
    is_headless,
    is_of_previous,
    target,
)
from alcove.controllers.workloads.controller_refs import reference

ZONE_LABEL = "topology.kubernetes.io/zone"
_BY_ZONE = ("PreferClose", "PreferSameZone", "PreferSameNode")
_BY_NODE = ("PreferSameNode",)
PER_SLICE_MAX = 100
NAME_LABEL = "kubernetes.io/service-name"
MANAGED_LABEL = "endpointslice.kubernetes.io/managed-by"
MANAGER = "endpointslice-controller.k8s.io"


class SlicePlan(Struct, frozen=True):
    create: list[Object] = field(default_factory=list)
    update: list[Object] = field(default_factory=list)
    delete: list[Object] = field(default_factory=list)


class _Kind(Struct, frozen=True):
    """What endpoints of one slice have in common."""

    family: str
    ports: tuple[tuple[str, int, str, str], ...]


def endpoint(service: Object, backend: EndpointBackend, address: str) -> Object:
    conditions = {
        "ready": backend.is_ready,
        "serving": backend.is_serving,
        "terminating": backend.is_terminating,
    }
    shown: Object = {"addresses": [address], "conditions": conditions, "targetRef": target(backend.pod)}
    if node := get(backend.pod, "spec", "nodeName"):
        shown["nodeName"] = node
    if name := host_name(service, backend.pod):
        shown["hostname"] = name
    return shown


def plan(
    service: Object,
    backends: Sequence[EndpointBackend],
    existing: Sequence[Object],
    zones: Mapping[str, str] = {},
) -> SlicePlan:
    """Plans the changes from the existing slices to the desired ones. `zones` maps nodes to zones."""
    desired: dict[_Kind, dict[str, Object]] = {}
    for family in families(service):
        # By identity: pods with the same ports share them, and there may be a thousand.
        by_ports: dict[int, dict[str, Object]] = {}
        for each in backends:
            if address := each.address(family):
                if id(each.ports) not in by_ports:
                    by_ports[id(each.ports)] = desired.setdefault(_Kind(family, _port_fields(each)), {})
                uid = each.pod["metadata"]["uid"]
                entry = with_hints(service, endpoint(service, each, address), zones)
                by_ports[id(each.ports)][uid] = entry
    if not desired:
        # An empty slice states that there are no endpoints; no slice at all would mean "not known yet".
        desired[_Kind(families(service)[0], ())] = {}
    result = SlicePlan()
    retained = _retain(service, existing, desired, result)
    for kind, remaining in desired.items():
        _place(service, kind, list(remaining.values()), retained.get(kind, []), result)
    for slices in retained.values():
        _finish(slices, result)
    return result


def _port_fields(backend: EndpointBackend) -> tuple[tuple[str, int, str, str], ...]:
    return tuple((port.name, port.port, port.protocol, port.app_protocol) for port in backend.ports)


class _Filled(Struct):
    """A slice before and after the change."""

    before: Object
    after: Object


def _retain(
    service: Object, existing: Sequence[Object], desired: dict[_Kind, dict[str, Object]], result: SlicePlan
) -> dict[_Kind, list[_Filled]]:
    """Removes from `desired` the endpoints that already are in a slice. Slices of other kinds are deleted, and those of
    another service of the same name, which the garbage collector deletes at any moment."""
    retained: dict[_Kind, list[_Filled]] = {}
    for each in existing:
        kind = _kind_of(each)
        if kind not in desired or is_of_previous(each, service):
            result.delete.append(each)
            continue
        uids = [get(entry, "targetRef", "uid", default="") for entry in each.get("endpoints") or ()]
        stay = [entry for uid in uids if (entry := desired[kind].pop(uid, None)) is not None]
        after = {**each, "metadata": _metadata(service, each["metadata"]), "endpoints": stay}
        retained.setdefault(kind, []).append(_Filled(each, after))
    return retained


def _kind_of(slice_: Object) -> _Kind:
    ports = tuple(
        (
            port.get("name") or "",
            port.get("port") or 0,
            port.get("protocol") or "TCP",
            port.get("appProtocol") or "",
        )
        for port in slice_.get("ports") or ()
    )
    return _Kind(slice_.get("addressType", ""), ports)


def _place(
    service: Object, kind: _Kind, remaining: list[Object], slices: list[_Filled], result: SlicePlan
) -> None:
    """Places new endpoints into the fullest slices that have room, then into new slices."""
    for each in sorted(slices, key=lambda each: -len(each.after["endpoints"])):
        room = PER_SLICE_MAX - len(each.after["endpoints"])
        each.after["endpoints"] = each.after["endpoints"] + remaining[:room]
        remaining = remaining[room:]
    if not remaining and slices:
        return
    for start in range(0, max(len(remaining), 1), PER_SLICE_MAX):
        result.create.append(_new(service, kind, remaining[start : start + PER_SLICE_MAX]))


def _finish(slices: list[_Filled], result: SlicePlan) -> None:
    empty = [each for each in slices if not each.after["endpoints"]]
    if len(empty) == len(slices):
        empty = empty[1:]  # One empty slice stays: it states that there are no endpoints.
    result.delete.extend(each.before for each in empty)
    result.update.extend(
        each.after
        for each in slices
        if not any(each is other for other in empty) and not same(each.after, each.before)
    )


def _new(service: Object, kind: _Kind, endpoints: list[Object]) -> Object:
    name = service["metadata"]["name"]
    ports = [
        {"name": name, "port": port, "protocol": protocol} | ({"appProtocol": app} if app else {})
        for name, port, protocol, app in kind.ports
    ]
    return {
        "metadata": {
            **_metadata(service, {}),
            "generateName": f"{name}-",
            "namespace": service["metadata"]["namespace"],
            "ownerReferences": [reference(SERVICES, service)],
        },
        "addressType": kind.family,
        "ports": ports,
        "endpoints": endpoints,
    }


def _metadata(service: Object, existing: Object) -> Object:
    desired = {
        **labels(service),
        NAME_LABEL: service["metadata"]["name"],
        MANAGED_LABEL: MANAGER,
        NETWORK_LABEL: network_of(service),
    }
    if is_headless(service):
        desired[HEADLESS_LABEL] = ""
    return {**existing, "labels": desired}


def zone_of(node: Object) -> str:
    return labels(node).get(ZONE_LABEL, "")


class EndpointZones:
    """The zone of each of ring0's nodes that has one, by node name."""

    def __init__(self) -> None:
        self.of: dict[str, str] = {}

    def note(self, change: ObjectChange) -> bool:
        """Updates the table; returns whether the node's zone has changed."""
        name = change.key.name
        zone = "" if change.kind is ChangeType.DELETED else zone_of(change.obj)
        if zone == self.of.get(name, ""):
            return False
        if zone:
            self.of[name] = zone
        else:
            del self.of[name]
        return True


def with_hints(service: Object, endpoint: Object, zones: Mapping[str, str]) -> Object:
    """The endpoint with its zone and hints."""
    node = endpoint.get("nodeName") or ""
    zone = zones.get(node, "")
    if not zone:
        return endpoint
    shown = {**endpoint, "zone": zone}
    preference = get(service, "spec", "trafficDistribution", default="")
    if preference in _BY_ZONE and get(endpoint, "conditions", "ready"):
        shown["hints"] = {"forZones": [{"name": zone}]}
        if preference in _BY_NODE:
            shown["hints"]["forNodes"] = [{"name": node}]
    return shown

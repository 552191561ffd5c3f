"""Endpoints into slices, changing as few slices as possible. Pure.

Endpoints with the same ports and address family share slices of at most `PER_SLICE_MAX`. One that is in
a slice stays in it; new ones fill what has room; slices with nothing in them go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct, field

from alcove.api.kinds.core.networks import NETWORK_LABEL, network_of
from alcove.api.objects import Object, get, labels
from alcove.api.validation import same
from alcove.client.resources import SERVICES
from alcove.controllers.endpoints import topology
from alcove.controllers.endpoints.backends import (
    HEADLESS_LABEL,
    EndpointBackend,
    families,
    host_name,
    is_headless,
    target,
)
from alcove.controllers.workloads.controller_refs import reference

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
    conditions = {"ready": backend.is_ready, "serving": backend.is_serving, "terminating": backend.is_ending}
    shown: Object = {"addresses": [address], "conditions": conditions, "targetRef": target(backend.pod)}
    if node := get(backend.pod, "spec", "nodeName"):
        shown["nodeName"] = node
    if name := host_name(service, backend.pod):
        shown["hostname"] = name
    return shown


def plan(
    service: Object, found: Sequence[EndpointBackend], there: Sequence[Object], zones: Mapping[str, str] = {}
) -> SlicePlan:
    """From the slices that are there to those that tell of the backends found. `zones` are the nodes'."""
    desired: dict[_Kind, dict[str, Object]] = {}
    for family in families(service):
        for each in found:
            if address := each.address(family):
                ports = tuple((port.name, port.port, port.protocol, port.app_protocol) for port in each.ports)
                uid = each.pod["metadata"]["uid"]
                told = topology.placed(service, endpoint(service, each, address), zones)
                desired.setdefault(_Kind(family, ports), {})[uid] = told
    if not desired:
        # An empty slice says: there is nobody, which is not the same as not knowing.
        desired[_Kind(families(service)[0], ())] = {}
    result = SlicePlan()
    kept = _kept(service, there, desired, result)
    for kind, left in desired.items():
        _place(service, kind, list(left.values()), kept.get(kind, []), result)
    for slices in kept.values():
        _settle(slices, result)
    return result


class _Filled(Struct):
    """A slice as it was, and as it will be."""

    before: Object
    after: Object


def _kept(
    service: Object, there: Sequence[Object], desired: dict[_Kind, dict[str, Object]], result: SlicePlan
) -> dict[_Kind, list[_Filled]]:
    """Takes out of `desired` what is in a slice already. Slices of a kind that nobody has are deleted."""
    kept: dict[_Kind, list[_Filled]] = {}
    for each in there:
        kind = _kind_of(each)
        if kind not in desired:
            result.delete.append(each)
            continue
        uids = [get(entry, "targetRef", "uid", default="") for entry in each.get("endpoints") or ()]
        stay = [entry for uid in uids if (entry := desired[kind].pop(uid, None)) is not None]
        after = {**each, "metadata": _metadata(service, each["metadata"]), "endpoints": stay}
        kept.setdefault(kind, []).append(_Filled(each, after))
    return kept


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
    service: Object, kind: _Kind, left: list[Object], slices: list[_Filled], result: SlicePlan
) -> None:
    """What is not in a slice yet: into the fullest that have room, then into new ones."""
    for each in sorted(slices, key=lambda each: -len(each.after["endpoints"])):
        room = PER_SLICE_MAX - len(each.after["endpoints"])
        each.after["endpoints"] = each.after["endpoints"] + left[:room]
        left = left[room:]
    if not left and slices:
        return
    for start in range(0, max(len(left), 1), PER_SLICE_MAX):
        result.create.append(_new(service, kind, left[start : start + PER_SLICE_MAX]))


def _settle(slices: list[_Filled], result: SlicePlan) -> None:
    empty = [each for each in slices if not each.after["endpoints"]]
    if len(empty) == len(slices):
        empty = empty[1:]  # It says that there is nobody.
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


def _metadata(service: Object, there: Object) -> Object:
    desired = {
        **labels(service),
        NAME_LABEL: service["metadata"]["name"],
        MANAGED_LABEL: MANAGER,
        NETWORK_LABEL: network_of(service),
    }
    if is_headless(service):
        desired[HEADLESS_LABEL] = ""
    return {**there, "labels": desired}

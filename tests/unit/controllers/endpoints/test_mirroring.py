"""Endpoints kept by hand, as slices; and hints to those nearby."""

from typing import Any

import pytest

from alcove.api.ids import SYSTEM
from alcove.api.objects import Object
from alcove.client.changes import ChangeType, ObjectChange
from alcove.client.keys import HOME, ObjectKey
from alcove.controllers.endpoints import mirroring, slice_packing
from alcove.controllers.endpoints.slice_packing import SlicePlan

SERVICE: Object = {"metadata": {"name": "db", "namespace": "n", "uid": "s"}, "spec": {"network": "blue"}}
PORTS = [{"name": "sql", "port": 5432, "protocol": "TCP"}]


def endpoints(
    *subsets: Object,
    annotations: Object | None = None,
    labels: Object | None = None,
    owner: Object | None = None,
) -> Object:
    metadata = {
        "ownerReferences": [{"controller": True, **owner}] if owner else [],
        "name": "db",
        "namespace": "n",
        "uid": "e",
        "labels": labels,
        "annotations": annotations or {},
    }
    return {"metadata": metadata, "subsets": list(subsets)}


def subset(*ready: str, unready: tuple[str, ...] = (), ports: list[Object] = PORTS) -> Object:
    return {
        "addresses": [{"ip": each} for each in ready],
        "notReadyAddresses": [{"ip": each} for each in unready],
        "ports": ports,
    }


def summary(slices: list[Object]) -> list[tuple[str, dict[str, bool]]]:
    return [
        (each["addressType"], {one["addresses"][0]: one["conditions"]["ready"] for one in each["endpoints"]})
        for each in slices
    ]


@pytest.mark.parametrize(
    ("given", "service", "expected"),
    [
        (endpoints(), SERVICE, True),
        (endpoints(), None, False),
        (endpoints(), {"metadata": {}, "spec": {"selector": {"a": "b"}}}, False),
        (endpoints(labels={mirroring.SKIP_LABEL: "true"}), SERVICE, False),
        (endpoints(labels={mirroring.SKIP_LABEL: "false"}), SERVICE, True),
        (endpoints(annotations={mirroring.LEADER: "me"}), SERVICE, False),
        (endpoints(owner={"kind": "Service", "uid": "s"}), SERVICE, True),
        (endpoints(owner={"kind": "Service", "uid": "before"}), SERVICE, False),
        (endpoints(owner={"kind": "Database", "uid": "d"}), SERVICE, True),
    ],
)
def test_which_are_copied(given: Object, service: Object | None, expected: bool) -> None:
    assert mirroring.is_copied(given, service) is expected


def test_by_family_and_ports() -> None:
    other = [{"name": "web", "port": 80}]
    given = endpoints(
        subset("10.0.0.1", "fd00::1", unready=("10.0.0.2", "10.0.0.1")), subset("10.0.0.3", ports=other)
    )
    plan = mirroring.plan(given, SERVICE, [])
    assert summary(plan.create) == [
        ("IPv4", {"10.0.0.1": True, "10.0.0.2": False}),
        ("IPv6", {"fd00::1": True}),
        ("IPv4", {"10.0.0.3": True}),
    ]
    made = plan.create[0]["metadata"]
    assert made["labels"]["arktos.futurewei.com/network"] == "blue"
    assert made["labels"]["kubernetes.io/service-name"] == "db"
    assert made["ownerReferences"][0]["uid"] == "e"


def test_what_is_right_stays() -> None:
    first = mirroring.plan(endpoints(subset("10.0.0.1", "fd00::1")), SERVICE, []).create
    assert mirroring.plan(endpoints(subset("fd00::1", "10.0.0.1")), SERVICE, first) == SlicePlan()
    second = mirroring.plan(endpoints(subset("10.0.0.9")), SERVICE, first)
    assert summary(second.update) == [("IPv4", {"10.0.0.9": True})]
    assert summary(second.delete) == [("IPv6", {"fd00::1": True})] and not second.create
    labelled = mirroring.plan(
        endpoints(subset("10.0.0.1", "fd00::1"), labels={"tier": "gold"}), SERVICE, first
    )
    assert len(labelled.update) == 2


def test_no_more_than_a_thousand_of_a_subset() -> None:
    many = [f"10.0.{number // 250}.{number % 250}" for number in range(1200)]
    plan = mirroring.plan(endpoints(subset(*many)), SERVICE, [])
    assert len(plan.create[0]["endpoints"]) == mirroring.PER_SUBSET_MAX


def endpoint(ready: bool = True, node: str = "n1") -> Object:
    return {"addresses": ["10.0.0.1"], "nodeName": node, "conditions": {"ready": ready}}


@pytest.mark.parametrize(
    ("wish", "given", "hints"),
    [
        ("", endpoint(), None),
        ("PreferClose", endpoint(), {"forZones": [{"name": "a"}]}),
        ("PreferSameZone", endpoint(), {"forZones": [{"name": "a"}]}),
        ("PreferSameNode", endpoint(), {"forZones": [{"name": "a"}], "forNodes": [{"name": "n1"}]}),
        ("PreferClose", endpoint(ready=False), None),
        ("PreferClose", endpoint(node="nowhere"), None),
    ],
)
def test_hints(wish: str, given: Object, hints: Any) -> None:
    service = {"spec": {"trafficDistribution": wish} if wish else {}}
    placed = slice_packing.with_hints(service, given, {"n1": "a"})
    assert placed.get("hints") == hints
    assert placed.get("zone") == ("a" if given["nodeName"] == "n1" else None)


def test_zones_follow_the_nodes() -> None:
    def change(kind: ChangeType, zone: str = "") -> ObjectChange:
        labels = {slice_packing.ZONE_LABEL: zone} if zone else {}
        return ObjectChange(
            kind, ObjectKey(HOME, SYSTEM, "", "n1"), {"metadata": {"name": "n1", "labels": labels}}
        )

    zones = slice_packing.EndpointZones()
    assert not zones.note(change(ChangeType.ADDED))
    assert zones.note(change(ChangeType.UPDATED, "a")) and not zones.note(change(ChangeType.UPDATED, "a"))
    assert zones.note(change(ChangeType.UPDATED, "b")) and zones.of == {"n1": "b"}
    assert zones.note(change(ChangeType.DELETED, "b")) and zones.of == {}

"""Which pods are backends of a service, and how slices and Endpoints list them."""

import random
import time
from typing import Any

import pytest

from alcove.api.objects import Object
from alcove.api.selectors import from_labels
from alcove.controllers.endpoints import subsets
from alcove.controllers.endpoints.backends import EndpointBackend, backends
from alcove.controllers.endpoints.slice_packing import PER_SLICE_MAX, plan

SELECTOR = from_labels({"app": "web"})


def service(**spec: Any) -> Object:
    port = {"name": "http", "port": 80, "targetPort": 8080, "protocol": "TCP"}
    return {
        "metadata": {"name": "web", "namespace": "default", "uid": "s", "labels": {"tier": "front"}},
        "spec": {"selector": {"app": "web"}, "ports": [port], "ipFamilies": ["IPv4"], **spec},
    }


def pod(number: int, *, ready: bool = True, ending: bool = False, **changed: Any) -> Object:
    metadata: Object = {"name": f"p{number:04}", "namespace": "default", "uid": f"u{number}"}
    metadata["labels"] = {"app": "web"}
    if ending:
        metadata["deletionTimestamp"] = "2024-01-01T00:00:00Z"
    made: Object = {
        "metadata": metadata,
        "spec": {"nodeName": "n1", "containers": [{"ports": [{"name": "web", "containerPort": 9000}]}]},
        "status": {
            "phase": "Running",
            "podIPs": [{"ip": f"10.0.{number // 250}.{number % 250 + 1}"}, {"ip": f"fd00::{number + 1:x}"}],
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
        },
    }
    for field, value in changed.items():
        made[field] |= value
    return made


def found(of: Object, *pods: Object) -> list[EndpointBackend]:
    return backends(of, SELECTOR, pods)


def names(of: list[EndpointBackend]) -> list[str]:
    return [each.pod["metadata"]["name"] for each in of]


@pytest.mark.parametrize(
    ("candidate", "is_behind"),
    [
        (pod(1), True),
        (pod(1, ready=False), True),
        (pod(1, ending=True), True),
        (pod(1, metadata={"labels": {"app": "db"}}), False),
        (pod(1, status={"podIPs": [], "podIP": "10.0.0.1"}), True),
        (pod(1, status={"podIPs": []}), False),
        (pod(1, status={"phase": "Succeeded"}), False),
        (pod(1, status={"phase": "Failed"}), False),
        (pod(1, spec={"network": "other"}), False),
        (pod(1, spec={"network": "default"}), True),
        (pod(1, metadata={"labels": {"app": "web", "arktos.futurewei.com/network": "other"}}), False),
    ],
)
def test_who_is_behind_a_service(candidate: Object, is_behind: bool) -> None:
    assert bool(found(service(), candidate)) is is_behind


def test_a_service_of_a_network_has_pods_of_that_network_only() -> None:
    of = service(network="blue")
    assert names(found(of, pod(1), pod(2, spec={"network": "blue"}), pod(3, spec={"network": "red"}))) == [
        "p0002"
    ]


@pytest.mark.parametrize(
    ("ready", "ending", "publish", "expected"),
    [
        (True, False, False, (True, True, False)),
        (False, False, False, (False, False, False)),
        (True, True, False, (False, True, True)),
        (False, True, False, (False, False, True)),
        (False, False, True, (True, False, False)),
        (False, True, True, (True, False, True)),
    ],
)
def test_conditions_of_an_endpoint(
    ready: bool, ending: bool, publish: bool, expected: tuple[bool, ...]
) -> None:
    of = service(publishNotReadyAddresses=publish)
    (made,) = plan(of, found(of, pod(1, ready=ready, ending=ending)), []).create
    conditions = made["endpoints"][0]["conditions"]
    assert (conditions["ready"], conditions["serving"], conditions["terminating"]) == expected


def test_named_ports_are_each_pods_own() -> None:
    of = service(ports=[{"name": "http", "port": 80, "targetPort": "web"}])
    other = pod(2)
    other["spec"]["containers"][0]["ports"][0]["containerPort"] = 9001
    without = pod(3)
    without["spec"]["containers"] = [{}]
    planned = plan(of, found(of, pod(1), other, without), []).create
    assert sorted([port["port"] for port in each["ports"]] for each in planned) == [[], [9000], [9001]]


def test_both_families_have_slices_of_their_own() -> None:
    of = service(ipFamilies=["IPv4", "IPv6"])
    planned = {each["addressType"]: each for each in plan(of, found(of, pod(1)), []).create}
    assert planned["IPv4"]["endpoints"][0]["addresses"] == ["10.0.0.2"]
    assert planned["IPv6"]["endpoints"][0]["addresses"] == ["fd00::2"]


def test_a_service_without_endpoints_keeps_one_empty_slice() -> None:
    of = service()
    (empty,) = plan(of, [], []).create
    assert empty["endpoints"] == [] and empty["metadata"]["labels"]["kubernetes.io/service-name"] == "web"
    assert plan(of, [], [stored(empty, "a")]) == plan(of, [], [stored(empty, "a")])
    unchanged = plan(of, [], [stored(empty, "a")])
    assert not unchanged.create and not unchanged.update and not unchanged.delete
    first = plan(of, found(of, pod(1)), [stored(empty, "a")])
    assert len(first.create) == 1 and len(first.delete) == 1


def stored(slice_: Object, name: str) -> Object:
    return {**slice_, "metadata": {**slice_["metadata"], "name": name, "uid": name}}


@pytest.mark.parametrize(
    "seed", [0, 1, 2, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(3, 10))]
)
def test_slices_follow_the_pods_and_are_changed_as_little_as_possible(seed: int) -> None:
    chance = random.Random(seed)
    of, made = service(), 0
    slices: dict[str, Object] = {}
    there: set[int] = set()
    for _ in range(30):
        there ^= {chance.randrange(400) for _ in range(chance.choice([1, 1, 3, 150]))}
        before = len(slices)
        step = plan(of, found(of, *map(pod, there)), list(slices.values()))
        assert len(step.create) + len(step.delete) <= before + len(there) // PER_SLICE_MAX + 1
        for each in step.delete:
            del slices[each["metadata"]["name"]]
        for each in step.update:
            slices[each["metadata"]["name"]] = each
        for each in step.create:
            made += 1
            slices[f"s{made}"] = stored(each, f"s{made}")
        uids = [entry["targetRef"]["uid"] for each in slices.values() for entry in each["endpoints"]]
        assert sorted(uids) == sorted(f"u{number}" for number in there)
        assert all(len(each["endpoints"]) <= PER_SLICE_MAX for each in slices.values())
        again = plan(of, found(of, *map(pod, there)), list(slices.values()))
        assert not again.create and not again.update and not again.delete


def test_one_pod_changes_one_slice() -> None:
    of = service()
    first = [
        stored(each, f"s{at}")
        for at, each in enumerate(plan(of, found(of, *map(pod, range(250))), []).create)
    ]
    assert [len(each["endpoints"]) for each in first] == [100, 100, 50]
    step = plan(of, found(of, *(pod(number, ready=number != 120) for number in range(250))), first)
    assert [each["metadata"]["name"] for each in step.update] == ["s1"]
    assert not step.create and not step.delete


def test_headless_pods_have_the_names_they_asked_for() -> None:
    of = service(clusterIP="None")
    own = pod(1, spec={"hostname": "db-0", "subdomain": "web"})
    other = pod(2, spec={"hostname": "db-1", "subdomain": "elsewhere"})
    (made,) = plan(of, found(of, own, other), []).create
    assert [entry.get("hostname") for entry in made["endpoints"]] == ["db-0", None]
    assert made["metadata"]["labels"]["service.kubernetes.io/headless"] == ""


def test_endpoints_group_addresses_by_readiness() -> None:
    of = service()
    endpoints = subsets.desired_subsets(of, found(of, pod(1), pod(2, ready=False), pod(3, ending=True)))
    (subset,) = endpoints["subsets"]
    assert [each["ip"] for each in subset["addresses"]] == ["10.0.0.2"]
    assert [each["ip"] for each in subset["notReadyAddresses"]] == ["10.0.0.3"]
    assert subset["ports"] == [{"name": "http", "port": 8080, "protocol": "TCP"}]
    assert endpoints["metadata"]["labels"]["tier"] == "front"


def test_endpoints_are_cut_off_and_say_so() -> None:
    of = service()
    endpoints = subsets.desired_subsets(of, found(of, *map(pod, range(1200))))
    assert len(endpoints["subsets"][0]["addresses"]) == 1000
    assert endpoints["metadata"]["annotations"] == {"endpoints.kubernetes.io/over-capacity": "truncated"}


def test_endpoints_without_backends_have_no_subsets() -> None:
    assert "subsets" not in subsets.desired_subsets(service(), [])


def test_pods_with_the_same_ports_share_them() -> None:
    """A thousand ports times a thousand pods were a gigabyte, and seconds in which no controller did anything."""
    ports = [
        {"name": f"p{n}", "port": 1 + n, "targetPort": "web" if n % 2 else 5_000 + n} for n in range(1_000)
    ]
    other: Any = {"containers": [{"ports": [{"name": "web", "containerPort": 9001}]}]}
    pods = [pod(number, spec=other if number == 7 else {}) for number in range(1_000)]
    began = time.process_time()
    behind = found(service(ports=ports), *pods)
    planned, listed = (
        plan(service(ports=ports), behind, []),
        subsets.desired_subsets(service(ports=ports), behind),
    )
    assert time.process_time() - began < 1.0
    assert len({id(each.ports) for each in behind}) == 2
    assert [len(each["endpoints"]) for each in planned.create] == [100] * 9 + [99, 1]
    assert [len(each["addresses"]) for each in listed["subsets"]] == [999, 1]
    assert [each["ports"][1]["port"] for each in planned.create] == [9000] * 10 + [9001]

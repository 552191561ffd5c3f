"""A tenant's configuration: divided from the first stored object on, whole again after the last one."""

import asyncio

from alcove.api.encode import encode
from alcove.api.ids import Key, Revision, TenantId
from alcove.api.objects import Object
from alcove.api.resources import FLOW_SCHEMAS, PODS, PRIORITY_LEVELS
from alcove.apiserver import builtin
from alcove.apiserver.cache.entries import CacheEntry, CacheEvent, CacheEventType
from alcove.apiserver.call import ApiCall
from alcove.apiserver.flow import FlowLimits
from alcove.apiserver.identity import Identity
from alcove.apiserver.paths import parse
from alcove.apiserver.priority.divisions import PRIORITY_LEVELS_MAX, Divisions
from alcove.http.messages import HttpRequest
from alcove.testing.memory_reader import MemoryReader

ACME, OTHER = TenantId("acme"), TenantId("other")


def level(name: str, shares: int = 10) -> Object:
    limited = {"nominalConcurrencyShares": shares, "limitResponse": {"type": "Reject"}}
    return {"metadata": {"name": name, "uid": f"uid-{name}"}, "spec": {"type": "Limited", "limited": limited}}


def schema(name: str, level: str) -> Object:
    rule = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"]}
    subjects = [{"kind": "User", "user": {"name": "ann"}}]
    spec = {"matchingPrecedence": 50, "rules": [{"subjects": subjects, "resourceRules": [rule]}]}
    return {
        "metadata": {"name": name, "uid": f"uid-{name}"},
        "spec": {**spec, "priorityLevelConfiguration": {"name": level}},
    }


def call(user: str = "ann") -> ApiCall:
    request = HttpRequest("GET", "/api/v1/namespaces/web/pods/a", "", {}, b"")
    made = ApiCall(request, parse(request.path), 0.0)
    made.identity, made.verb = Identity(ACME, user, ("system:authenticated",)), "get"
    return made


def changed(resource: object = FLOW_SCHEMAS, kind: CacheEventType = CacheEventType.ADDED) -> list[CacheEvent]:
    key = Key(resource, ACME, "", "any")  # type: ignore[arg-type]
    entry = CacheEntry(key, Revision(1), encode({"apiVersion": "v1", "kind": "Any", "metadata": {}}))
    return [CacheEvent(kind, entry, None)]


def test_a_tenant_without_configuration_is_not_divided() -> None:
    divisions = Divisions(MemoryReader(), FlowLimits())
    divisions.load()
    assert divisions.of(ACME) is None
    divisions.notice(changed(PODS))
    assert divisions.of(ACME) is None


def test_what_is_stored_at_the_start_counts() -> None:
    reader = MemoryReader()
    reader.put(ACME, PRIORITY_LEVELS, level("low"))
    divisions = Divisions(reader, FlowLimits())
    divisions.load()
    assert divisions.of(ACME) is not None
    assert divisions.of(OTHER) is None


def test_changes_apply_to_the_next_request() -> None:
    reader = MemoryReader()
    divisions = Divisions(reader, FlowLimits())
    reader.put(ACME, FLOW_SCHEMAS, schema("mine", "low"))
    divisions.notice(changed())
    division = divisions.of(ACME)
    assert division is not None
    # Its level does not exist, so it is not considered.
    found = division.classify(call())
    assert (found.schema.name, found.level.config.name) == ("global-default", "global-default")
    assert found.headers() == [
        (
            b"X-Kubernetes-PF-FlowSchema-UID",
            builtin.uid_of(ACME, FLOW_SCHEMAS, "global-default").encode(),
        ),
        (
            b"X-Kubernetes-PF-PriorityLevel-UID",
            builtin.uid_of(ACME, PRIORITY_LEVELS, "global-default").encode(),
        ),
    ]
    reader.put(ACME, PRIORITY_LEVELS, level("low"))
    divisions.notice(changed(PRIORITY_LEVELS))
    division = divisions.of(ACME)
    assert division is not None
    assert division.classify(call()).headers()[0][1] == b"uid-mine"
    assert division.classify(call("bob")).schema.name == "global-default"


def test_a_stored_level_replaces_the_built_in_one() -> None:
    reader = MemoryReader()
    divisions = Divisions(reader, FlowLimits())
    before = divisions.nominal_seats(ACME)
    reader.put(ACME, PRIORITY_LEVELS, level("global-default", 1000))
    divisions.notice(changed(PRIORITY_LEVELS))
    after = divisions.nominal_seats(ACME)
    assert before.keys() == after.keys()
    assert after["global-default"] > 400 > before["global-default"]
    assert divisions.nominal_seats(OTHER) == before


def test_the_last_object_gone_the_tenant_is_whole_again() -> None:
    reader = MemoryReader()
    divisions = Divisions(reader, FlowLimits())
    reader.put(ACME, PRIORITY_LEVELS, level("low"))
    divisions.notice(changed(PRIORITY_LEVELS))
    assert divisions.of(ACME) is not None
    reader.remove(ACME, PRIORITY_LEVELS, "", "low")
    divisions.notice(changed(PRIORITY_LEVELS, CacheEventType.DELETED))
    assert not divisions._divisions, "a tenant that is deleted leaves nothing behind"
    assert divisions.of(ACME) is None


async def test_a_division_ends_with_its_last_request() -> None:
    reader = MemoryReader()
    divisions = Divisions(reader, FlowLimits())
    reader.put(ACME, PRIORITY_LEVELS, level("low"))
    divisions.notice(changed(PRIORITY_LEVELS))
    division = divisions.of(ACME)
    assert division is not None
    flow = division.classify(call())
    seats = division.seats.try_acquire(flow.level, 3)
    reader.remove(ACME, PRIORITY_LEVELS, "", "low")
    divisions.notice(changed(PRIORITY_LEVELS))
    assert divisions.of(ACME) is division
    flow.release(seats)
    await asyncio.sleep(0)
    assert divisions.of(ACME) is None


def test_objects_beyond_the_bound_are_not_looked_at() -> None:
    reader = MemoryReader()
    for number in range(200):
        reader.put(ACME, PRIORITY_LEVELS, level(f"l{number}"))
    divisions = Divisions(reader, FlowLimits())
    divisions.load()
    assert len(divisions.nominal_seats(ACME)) <= PRIORITY_LEVELS_MAX + 16

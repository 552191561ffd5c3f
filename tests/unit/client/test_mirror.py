"""A mirror is the sum of its events; readers get copies of their own; tenants are never mixed up."""

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alcove.api.ids import Revision, TenantId
from alcove.api.objects import Object
from alcove.client.changes import ChangeType, ObjectChange, controller_uid
from alcove.client.client import ListSelection
from alcove.client.errors import ServerBehind
from alcove.client.keys import HOME, ObjectKey, PlaneId
from alcove.client.mirror import OWED_MAX, Mirror
from alcove.client.plane_mirror import UNSORTED_MAX, PlaneMirror
from alcove.client.resources import PODS
from alcove.testing.clock import VirtualClock
from alcove.testing.reads import count_reads

A, B = TenantId("a"), TenantId("b")


def pod(tenant: str, name: str, revision: int = 1, **labels: str) -> Object:
    meta = {"tenant": tenant, "namespace": "default", "name": name, "resourceVersion": str(revision)}
    return {"metadata": {**meta, "labels": labels, "managedFields": [{"manager": "x"}]}}


def put(part: PlaneMirror, obj: Object) -> None:
    part.put(obj, Revision(int(obj["metadata"]["resourceVersion"])))


def key(tenant: TenantId, name: str, plane: PlaneId = HOME) -> ObjectKey:
    return ObjectKey(plane, tenant, "default", name)


def by_app(obj: Object) -> list[str]:
    app = obj["metadata"]["labels"].get("app")
    return [app] if app else []


@pytest.fixture
def mirror() -> Mirror:
    return Mirror(ListSelection(PODS), {"app": by_app})


async def test_readers_get_copies(mirror: Mirror) -> None:
    put(mirror.add_plane(HOME), pod("a", "x"))
    first = mirror.get(key(A, "x"))
    assert first is not None and "managedFields" not in first["metadata"]
    first["metadata"]["name"] = "spoiled"
    assert mirror.get(key(A, "x"))["metadata"]["name"] == "x"  # type: ignore[index]


async def test_tenants_and_planes_with_equal_names_are_apart(mirror: Mirror) -> None:
    home, other = mirror.add_plane(HOME), mirror.add_plane(PlaneId("b"))
    put(home, pod("a", "x", app="web"))
    put(home, pod("b", "x", app="web"))
    put(other, pod("b", "x", app="web"))
    assert mirror.find_keys("app", HOME, A, "web") == [key(A, "x")]
    assert mirror.keys(PlaneId("b"), B) == [key(B, "x", PlaneId("b"))]
    assert mirror.keys(PlaneId("b"), A) == []
    assert mirror.count() == 3


async def test_an_index_follows_changes(mirror: Mirror) -> None:
    part = mirror.add_plane(HOME)
    put(part, pod("a", "x", 1, app="web"))
    put(part, pod("a", "x", 2, app="db"))
    assert mirror.find("app", HOME, A, "web") == []
    assert [each["metadata"]["name"] for each in mirror.find("app", HOME, A, "db")] == ["x"]
    part.remove(pod("a", "x", 3), Revision(3))
    assert mirror.find("app", HOME, A, "db") == [] and mirror.count() == 0


async def test_an_index_added_later_covers_what_is_there(mirror: Mirror) -> None:
    part = mirror.add_plane(HOME)
    put(part, pod("a", "x", 1, tier="front"))
    mirror.add_index("tier", lambda obj: [obj["metadata"]["labels"].get("tier", "")])
    mirror.add_index("tier", lambda obj: ["taken for the same"])
    put(part, pod("a", "y", 2, tier="front"))
    assert mirror.find_keys("tier", HOME, A, "front") == [key(A, "x"), key(A, "y")]


async def test_an_index_that_raises_hides_nothing_else(mirror: Mirror) -> None:
    part = mirror.add_plane(HOME)
    mirror.add_index("odd", lambda obj: [obj["metadata"]["labels"]["must"]])
    put(part, pod("a", "x", 1, app="web"))
    assert key(A, "x") in mirror and mirror.find_keys("app", HOME, A, "web") == [key(A, "x")]


async def test_a_list_removes_what_it_does_not_name(mirror: Mirror) -> None:
    changes: list[tuple[ChangeType, str]] = []
    part = mirror.add_plane(HOME)
    for name in ("stays", "goes"):
        put(part, pod("a", name))
    mirror.subscribe(lambda change: changes.append((change.kind, change.key.name)))
    changes.clear()
    part.begin_list()
    put(part, pod("a", "stays"))
    put(part, pod("a", "comes", 5))
    part.end_list(Revision(9))
    assert changes == [(ChangeType.ADDED, "comes"), (ChangeType.DELETED, "goes")]
    assert part.revision == 9


async def test_subscribers_get_old_and_new_object_and_cannot_stop_each_other(mirror: Mirror) -> None:
    changes: list[ObjectChange] = []

    def broken(change: ObjectChange) -> None:
        raise RuntimeError("odd")

    part = mirror.add_plane(HOME)
    put(part, pod("a", "x", 1, app="old"))
    mirror.subscribe(broken)
    mirror.subscribe(changes.append)
    put(part, pod("a", "x", 2, app="new"))
    assert [change.kind for change in changes] == [ChangeType.ADDED, ChangeType.UPDATED]
    assert changes[1].old["metadata"]["labels"] == {"app": "old"}  # type: ignore[index]
    assert changes[1].obj["metadata"]["labels"] == {"app": "new"}


async def test_others_run_while_a_subscriber_is_told_what_exists(
    mirror: Mirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a million objects a leader would not renew its lease for half a minute."""
    monkeypatch.setattr("alcove.client.mirror.TURN_SECONDS", 0.0)
    home = mirror.add_plane(HOME)
    for name in ("v", "w", "x"):
        put(home, pod("a", name))
    told: list[tuple[ChangeType, str, str]] = []

    def note(change: ObjectChange) -> None:
        told.append((change.kind, change.key.name, change.obj["metadata"]["resourceVersion"]))

    async def change() -> None:
        assert [name for _, name, _ in told] == ["v"]
        put(home, pod("a", "w", 5))
        home.remove(pod("a", "x", 6), Revision(6))
        put(home, pod("b", "y", 7))

    changing = asyncio.create_task(change())
    await mirror.subscribe_in_turns(note)
    await changing
    assert told[:4] == [
        (ChangeType.ADDED, "v", "1"),
        (ChangeType.UPDATED, "w", "5"),
        (ChangeType.DELETED, "x", "6"),
        (ChangeType.ADDED, "y", "7"),
    ]
    assert told[4] == (ChangeType.ADDED, "w", "5")
    assert not [each for each in told[4:] if each[1] == "x"]


async def test_subscribers_together_share_what_is_read(mirror: Mirror) -> None:
    """Every loop of the controllers decoded every object by itself."""
    home = mirror.add_plane(HOME)
    for name in ("v", "w", "x"):
        put(home, pod("a", name))
    first, second = list[str](), list[str]()
    with count_reads() as reads:
        await mirror.subscribe_in_turns(
            lambda change: first.append(change.key.name), lambda change: second.append(change.key.name)
        )
    assert first == second == ["v", "w", "x"]
    alone = reads.count
    with count_reads() as reads:
        await mirror.subscribe_in_turns(lambda _change: None)
    assert reads.count == alone
    put(home, pod("a", "y"))
    assert first[3:] == second[3:] == ["y"]


async def test_when_a_plane_leaves_its_objects_are_reported_as_deleted(mirror: Mirror) -> None:
    changes: list[tuple[ChangeType, PlaneId]] = []
    for plane in (HOME, PlaneId("b")):
        put(mirror.add_plane(plane), pod("b", "x"))
    mirror.subscribe(lambda change: changes.append((change.kind, change.key.plane)))
    mirror.remove_plane(PlaneId("b"))
    assert changes[-1] == (ChangeType.DELETED, "b") and mirror.keys(HOME, B)


def test_own_writes_are_waited_for() -> None:
    async def scenario() -> float:
        mirror = Mirror(ListSelection(PODS))
        part = mirror.add_plane(HOME)
        mirror.owe(HOME, A, Revision(7))
        await mirror.caught_up(HOME, B)
        asyncio.get_running_loop().call_later(2, lambda: put(part, pod("z", "other", 8)))
        await mirror.caught_up(HOME, A)
        await mirror.caught_up(HOME, A)
        return asyncio.get_running_loop().time()

    assert VirtualClock().run(scenario()) == pytest.approx(2)


def test_waiting_for_own_writes_ends() -> None:
    async def scenario() -> None:
        mirror = Mirror(ListSelection(PODS))
        mirror.add_plane(HOME)
        mirror.owe(HOME, A, Revision(7))
        await mirror.caught_up(HOME, A)

    with pytest.raises(ServerBehind):
        VirtualClock().run(scenario())


async def test_pending_own_writes_of_deleted_tenants_are_bounded() -> None:
    mirror = Mirror(ListSelection(PODS))
    part = mirror.add_plane(HOME)
    for number in range(1, 2_000):
        mirror.owe(HOME, TenantId(f"gone-{number}"), Revision(number))
        if number % 3 == 0:
            part.advance(Revision(number))  # Seen, and nobody waited for it.
    assert len(mirror._owed) <= OWED_MAX + 3
    mirror.owe(HOME, A, Revision(3_000))
    assert mirror.owes(HOME, A)


async def test_a_mirror_with_a_selector_does_not_wait_for_own_writes() -> None:
    mirror = Mirror(ListSelection(PODS, labels="app=web"))
    mirror.add_plane(HOME)
    mirror.owe(HOME, A, Revision(7))
    await mirror.caught_up(HOME, A)


NAMES = st.sampled_from(["x", "y", "z"])
STEPS = st.lists(
    st.tuples(st.booleans(), st.sampled_from(["a", "b"]), NAMES, st.sampled_from(["web", "db", ""])),
    max_size=40,
)


@given(STEPS)
def test_it_is_what_its_events_add_up_to(steps: list[tuple[bool, str, str, str]]) -> None:
    async def scenario() -> None:
        mirror = Mirror(ListSelection(PODS), {"app": by_app})
        part = mirror.add_plane(HOME)
        model: dict[tuple[str, str], str] = {}
        observed: dict[tuple[str, str], Any] = {}

        def observe(change: ObjectChange) -> None:
            mark = (change.key.tenant, change.key.name)
            if change.kind is ChangeType.DELETED:
                del observed[mark]
            else:
                observed[mark] = change.obj["metadata"]["labels"].get("app", "")

        mirror.subscribe(observe)
        for revision, (added, tenant, name, app) in enumerate(steps, 1):
            obj = pod(tenant, name, revision, **({"app": app} if app else {}))
            if added:
                put(part, obj)
                model[tenant, name] = app
            else:
                part.remove(obj, Revision(revision))
                model.pop((tenant, name), None)
        assert observed == model
        for tenant in (A, B):
            for app in ("web", "db"):
                found = {each.name for each in mirror.find_keys("app", HOME, tenant, app)}
                assert found == {name for (t, name), value in model.items() if t == tenant and value == app}

    asyncio.run(scenario())


@given(STEPS)
def test_objects_of_all_tenants_are_found_by_a_value(steps: list[tuple[bool, str, str, str]]) -> None:
    async def scenario() -> None:
        mirror = Mirror(ListSelection(PODS), {"app": by_app})
        parts = {"a": mirror.add_plane(HOME)}
        mirror.index_tenants("app")
        parts["b"] = mirror.add_plane(PlaneId("b"))
        model: dict[ObjectKey, str] = {}
        for revision, (added, tenant, name, app) in enumerate(steps, 1):
            obj, part = pod(tenant, name, revision, **({"app": app} if app else {})), parts[tenant]
            if added:
                put(part, obj)
                model[key(TenantId(tenant), name, part.plane)] = app
            else:
                part.remove(obj, Revision(revision))
                model.pop(key(TenantId(tenant), name, part.plane), None)
        for app in ("web", "db"):
            assert set(mirror.find_keys_of_all("app", app)) == {each for each in model if model[each] == app}

    asyncio.run(scenario())


async def test_a_namespace_is_listed_without_the_others_of_its_tenant(mirror: Mirror) -> None:
    part = mirror.add_plane(HOME)
    for number in range(3 * UNSORTED_MAX):
        obj = pod("a", f"p{number}", number + 1)
        obj["metadata"]["namespace"] = f"n{number % 40}"
        put(part, obj)
    in_n1 = {f"p{number}" for number in range(1, 3 * UNSORTED_MAX, 40)}
    assert {each.name for each in mirror.keys(HOME, A, "n1")} == in_n1
    assert len(part._namespaces[A]["n1"]) == len(in_n1)
    for each in mirror.keys(HOME, A):
        part.remove(
            {"metadata": {"tenant": "a", "namespace": each.namespace, "name": each.name}}, Revision(999)
        )
    assert mirror.keys(HOME, A, "n1") == [] and part._namespaces == {}


def test_the_controller_index_has_only_the_controlling_owner() -> None:
    owners = [{"uid": "1", "controller": True}, {"uid": "2"}]
    obj = {"metadata": {"ownerReferences": owners}}
    assert list(controller_uid(obj)) == ["1"]
    assert list(controller_uid({"metadata": {}})) == []


def test_what_a_tenant_only_sees_does_not_arrive_with_it() -> None:
    mirror = PlaneMirror(HOME, lambda obj: obj, [], lambda _change: None)
    mirror.begin_arrival(TenantId("acme"))
    seen = {"metadata": {"name": "n1"}}, Revision(5)
    others = {"metadata": {"name": "n2", "tenant": "system"}}, Revision(6)
    own = {"metadata": {"name": "own", "tenant": "acme"}}, Revision(7)
    mirror.arrive(TenantId("acme"), [seen, others, own], Revision(8))
    assert mirror.tenants() == ["acme"] and mirror.names(TenantId("acme"), None) == [("", "own")]

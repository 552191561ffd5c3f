"""What dedicated planes may have is noted in ring0, before they get it, and counts while they are away."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any

import msgspec
import orjson

from alcove.api.errors import ApiError, Conflict, NotFound, status
from alcove.api.ids import SYSTEM, TenantId
from alcove.api.objects import Object
from alcove.client.client import Client
from alcove.client.errors import Unreachable
from alcove.client.keys import HOME, PlaneId
from alcove.client.transport import Stream
from alcove.http.client import ReceivedResponse
from alcove.scheduler.core import Scheduler
from alcove.scheduler.decisions import BindPod
from alcove.scheduler.escrow import Escrow
from alcove.scheduler.events import ObjectKind, SchedulerEvent
from alcove.scheduler.notes import read_note
from alcove.testing.scheduling import node, pod

BIG = TenantId("big")
PLANE = PlaneId("big")
SMALL = TenantId("small")


class Home:
    """A transport to a server that has one namespace, once it is made, with notes, and sends their events on request."""

    def __init__(self, core: Scheduler) -> None:
        self._core = core
        self._is_made = False
        self._revision = 0
        self._chance = random.Random(1)
        self.late: list[tuple[str, str, bytes]] | None = None
        """Writes that are lost, it seems, but come in time."""
        self.notes: dict[str, Object] = {}
        self._gone: list[Object] = []
        self.writes = 0
        self.is_away = False

    async def request(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes = b""
    ) -> ReceivedResponse:
        await asyncio.sleep(self._chance.random() / 1000)
        if self.is_away:
            raise Unreachable("away", sent=True)
        if self.late is not None and method != "GET":
            self.late.append((method, path, body))
            raise Unreachable("no answer", sent=True)
        try:
            answer = self._answer(method, path, orjson.loads(body) if body else {})
        except ApiError as error:
            return ReceivedResponse(error.code, {}, orjson.dumps(status(error)))
        return ReceivedResponse(200, {}, orjson.dumps(answer))

    def _answer(self, method: str, path: str, obj: Object) -> Object:
        if path.endswith("/namespaces"):
            assert obj["metadata"]["name"] == "alcove-escrow"
            self._is_made = True
            return obj
        if not self._is_made:
            raise NotFound("no such namespace")
        self.writes += 1
        if method == "POST":
            self.put(obj["metadata"]["name"], obj["data"])
            return self.notes[obj["metadata"]["name"]]
        name = path.rpartition("/")[2]
        if name not in self.notes:
            raise NotFound("no such note")
        if method == "GET":
            return self.notes[name]
        found = self.notes[name]["metadata"]["resourceVersion"]
        if method == "DELETE":
            if obj["preconditions"]["resourceVersion"] != found:
                raise Conflict("changed")
            self._gone.append(self.notes.pop(name))
            return {}
        if method == "PUT":
            if obj["metadata"]["resourceVersion"] != found:
                raise Conflict("changed")
            self.put(name, obj["data"])
            return self.notes[name]
        self.put(name, {**self.notes[name]["data"], **obj["data"]})
        return self.notes[name]

    def put(self, name: str, data: Mapping[str, str | None]) -> None:
        self._is_made = True
        kept = {plane: text for plane, text in data.items() if text is not None}
        self._revision += 1
        metadata = {"name": name, "namespace": "alcove-escrow", "resourceVersion": str(self._revision)}
        self.notes[name] = {"metadata": metadata, "data": kept}

    def send_notes(self) -> None:
        """The watch catches up."""
        for each in self._gone:
            self._core.observe(SchedulerEvent(HOME, SYSTEM, ObjectKind.NOTE, each, True))
        self._gone.clear()
        for each in self.notes.values():
            self._core.observe(SchedulerEvent(HOME, SYSTEM, ObjectKind.NOTE, each))

    def held(self, name: str) -> dict[str, int]:
        return dict(read_note(self.notes[name]).get(PLANE, {}))

    def stream(self, path: str, headers: Mapping[str, str]) -> AbstractAsyncContextManager[Stream]:
        raise NotImplementedError

    async def close(self) -> None:
        pass


def _desk(*nodes: Object, over: bool = False, **held: int) -> tuple[Scheduler, Home, Escrow]:
    """With a note of these amounts for the node "n", if there are any."""
    core = Scheduler(lambda: 0.0)
    core.add_plane(PLANE, BIG)
    for each in nodes:
        core.observe(SchedulerEvent(HOME, SYSTEM, ObjectKind.NODE, each))
    home = Home(core)
    if held:
        home.put("n", {PLANE: msgspec.json.encode(held).decode()})
        home.send_notes()
    client = Client(home)
    return core, home, Escrow(core.cache, lambda: client, lambda _plane: over)


def _requested(core: Scheduler) -> int:
    return int(core.cache.nodes.requested[0, core.cache.nodes.slots["n"]])


def _flap(core: Scheduler) -> None:
    core.observe(SchedulerEvent(HOME, SYSTEM, ObjectKind.NODE, node("n"), True))
    core.observe(SchedulerEvent(HOME, SYSTEM, ObjectKind.NODE, node("n", cpu="4")))


def _placed(core: Scheduler) -> list[str]:
    found = []
    while (decision := core.schedule_next()) is not None:
        if isinstance(decision, BindPod):
            found.append(decision.pod.name)
    return found


def _ask(core: Scheduler, name: str, tenant: TenantId = SMALL, plane: PlaneId = HOME, **spec: Any) -> None:
    core.observe(SchedulerEvent(plane, tenant, ObjectKind.POD, pod(name, **spec)))


async def test_a_note_is_written_before_the_first_pod_and_covers_a_few_more() -> None:
    core, home, escrow = _desk(node("n", cpu="16"))
    core.know_plane(PLANE)
    for number in range(4):
        _ask(core, f"p{number}", BIG, PLANE, cpu="1")
        assert _placed(core) == [f"p{number}"]
        assert await escrow.cover(PLANE, "n")
        assert home.held("n")["cpu"] >= 1000 * (number + 1)
        assert home.held("n")["pods"] >= number + 1
    assert home.writes < 4


async def test_pods_of_the_home_plane_need_no_note() -> None:
    core, home, escrow = _desk(node("n"))
    _ask(core, "p", cpu="1")
    assert _placed(core) == ["p"]
    assert await escrow.cover(HOME, "n")
    assert home.writes == 0


async def test_what_could_not_be_noted_is_not_covered() -> None:
    core, home, escrow = _desk(node("n"))
    core.know_plane(PLANE)
    _ask(core, "p", BIG, PLANE, cpu="1")
    _placed(core)
    home.is_away = True
    assert not await escrow.cover(PLANE, "n")
    home.is_away = False
    assert await escrow.cover(PLANE, "n")


async def test_one_planes_note_leaves_anothers_alone() -> None:
    core, home, escrow = _desk(node("n", cpu="16"))
    home.put("n", {"other": '{"cpu": 1000}'})
    core.know_plane(PLANE)
    _ask(core, "p", BIG, PLANE, cpu="1")
    _placed(core)
    assert await escrow.cover(PLANE, "n")
    assert set(home.notes["n"]["data"]) == {"other", PLANE}


def test_notes_count_while_the_planes_pods_are_not_known() -> None:
    core, home, _ = _desk(node("n", cpu="4"), cpu=3000, pods=3)
    _ask(core, "a", cpu="1")
    _ask(core, "b", cpu="1")
    assert _placed(core) == ["a"]
    core.observe(SchedulerEvent(PLANE, BIG, ObjectKind.POD, pod("theirs", cpu="2", on="n")))
    core.know_plane(PLANE)
    assert _placed(core) == ["b"]
    home.send_notes()
    assert _requested(core) == 4000


def test_notes_outlive_the_node() -> None:
    core, _, _ = _desk(node("n", cpu="4"), cpu=3000)
    for _ in range(3):
        _flap(core)
        assert _requested(core) == 3000
    core.know_plane(PLANE)
    assert _requested(core) == 0
    _flap(core)
    assert _requested(core) == 0


def test_a_note_may_come_before_its_node() -> None:
    core, _, _ = _desk(cpu=3000)
    core.observe(SchedulerEvent(HOME, SYSTEM, ObjectKind.NODE, node("n", cpu="4")))
    assert _requested(core) == 3000


def test_own_notes_count_nothing_once_the_plane_is_known() -> None:
    core, home, _ = _desk(node("n", cpu="4"))
    core.know_plane(PLANE)
    home.put("n", {PLANE: '{"cpu": 4000}'})
    home.send_notes()
    assert _requested(core) == 0


def test_notes_of_planes_that_never_joined_count_too() -> None:
    core = Scheduler(lambda: 0.0)
    core.observe(SchedulerEvent(HOME, SYSTEM, ObjectKind.NODE, node("n", cpu="4")))
    home = Home(core)
    home.put("n", {"never": '{"cpu": 4000}'})
    home.send_notes()
    _ask(core, "a", cpu="1")
    assert _placed(core) == []


def test_a_plane_that_is_removed_leaves_its_notes_counting_until_they_are_gone() -> None:
    core, home, _ = _desk(node("n", cpu="4"), cpu=4000)
    core.know_plane(PLANE)
    core.remove_plane(PLANE)
    _ask(core, "a", cpu="1")
    assert _placed(core) == []
    home.put("n", {})
    home.send_notes()
    assert _placed(core) == ["a"]


async def test_what_is_noted_far_ahead_is_taken_back() -> None:
    core, home, escrow = _desk(node("n", cpu="4"), cpu=4000, pods=4)
    await escrow.lower("n")
    assert home.held("n")["cpu"] == 4000  # Who knows what the plane has.
    theirs = pod("theirs", cpu="500m", on="n")
    core.observe(SchedulerEvent(PLANE, BIG, ObjectKind.POD, theirs))
    core.know_plane(PLANE)
    await escrow.lower("n")
    assert 500 <= home.held("n")["cpu"] < 2000
    core.observe(SchedulerEvent(PLANE, BIG, ObjectKind.POD, theirs, True))
    home.send_notes()
    await escrow.lower("n")
    assert home.notes == {}
    home.send_notes()
    assert core.cache.notes.held == {}


async def test_what_is_taken_back_late_undoes_nothing() -> None:
    core, home, escrow = _desk(node("n", cpu="4"), cpu=4000, pods=4)
    core.know_plane(PLANE)
    home.late = []
    await escrow.lower("n")
    late, home.late = home.late, None
    _ask(core, "p", BIG, PLANE, cpu="1")
    assert _placed(core) == ["p"]
    assert await escrow.cover(PLANE, "n")
    for method, path, body in late:
        await home.request(method, path, {}, body)
    assert home.held("n")["cpu"] >= 1000


async def test_notes_of_a_node_are_written_by_one_at_a_time() -> None:
    core, home, escrow = _desk(node("n", cpu="64"))
    core.know_plane(PLANE)

    async def one(number: int) -> bool:
        _ask(core, f"p{number}", BIG, PLANE, cpu="1")
        assert _placed(core) == [f"p{number}"]
        return await escrow.cover(PLANE, "n")

    assert all(await asyncio.gather(*map(one, range(50))))
    assert home.held("n")["cpu"] >= 50_000
    assert home.writes < 20 and not escrow._locks


async def test_of_a_plane_that_is_over_nothing_is_kept() -> None:
    core, home, escrow = _desk(node("n", cpu="4"), over=True, cpu=4000)
    _ask(core, "a", cpu="1")
    assert _placed(core) == []
    await escrow.lower("n")
    home.send_notes()
    assert home.notes == {} and _placed(core) == ["a"]


def test_a_note_that_makes_no_sense_notes_nothing() -> None:
    assert read_note({"metadata": {"name": "n"}, "data": {PLANE: "much", "other": '{"cpu": 1}'}}) == {
        "other": {"cpu": 1}
    }
    assert read_note({"metadata": {"name": "n"}}) == {}


def test_a_tenants_note_is_none() -> None:
    core, home, _ = _desk(node("n", cpu="4"))
    home.put("n", {PLANE: '{"cpu": 4000}'})
    core.observe(SchedulerEvent(HOME, SMALL, ObjectKind.NOTE, home.notes["n"]))
    assert _requested(core) == 0


def test_a_plane_that_lies_about_nodes_takes_nothing_of_them() -> None:
    """Its server says that a pod is bound that was never scheduled, or has grown, or is nominated."""
    core, _, _ = _desk(node("n", cpu="4"), cpu=1000, pods=1)
    core.know_plane(PLANE)
    forged = [
        pod("forged", cpu="4", on="n"),
        {**pod("greedy", cpu="100"), "status": {"nominatedNodeName": "n"}},
    ]
    for each in forged:
        core.observe(SchedulerEvent(PLANE, BIG, ObjectKind.POD, each))
    assert _requested(core) == 0
    theirs, grown = pod("theirs", cpu="1", on="n"), pod("theirs", cpu="4", on="n")
    grown["metadata"]["uid"] = theirs["metadata"]["uid"]
    for each in (theirs, grown):
        core.observe(SchedulerEvent(PLANE, BIG, ObjectKind.POD, each))
        assert _requested(core) == 1000
    for name in ("a", "b", "c"):
        _ask(core, name, cpu="1")
    assert {"a", "b", "c"} <= set(_placed(core))


async def test_pods_of_a_tenant_that_moves_to_its_own_plane_are_recorded_later() -> None:
    core, home, escrow = _desk(node("n", cpu="4"))
    core.know_plane(PLANE)
    moving = pod("p", cpu="1", on="n")
    for plane in (HOME, PLANE):
        core.observe(SchedulerEvent(plane, BIG, ObjectKind.POD, moving))
    assert _requested(core) == 1000
    assert core.cache.planes_on("n") == {PLANE}
    assert await escrow.cover(PLANE, "n") and home.held("n")["cpu"] >= 1000

"""What dedicated planes may have is noted on nodes, before they get it, and counts while they are away."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any

import msgspec
import orjson

from alcove.api.ids import SYSTEM, TenantId
from alcove.api.objects import Object
from alcove.client.client import Client
from alcove.client.errors import Unreachable
from alcove.client.keys import HOME, PlaneId
from alcove.client.transport import Response, Stream
from alcove.scheduler.core import Scheduler
from alcove.scheduler.decisions import Bind
from alcove.scheduler.escrow import Escrow
from alcove.scheduler.events import Event, Kind
from alcove.scheduler.nodes import held_key, read_node
from alcove.testing.scheduling import node, pod

BIG = TenantId("big")
PLANE = PlaneId("big")
SMALL = TenantId("small")


class Home:
    """A transport to nodes that are kept here: patches of annotations, and nothing else."""

    def __init__(self, core: Scheduler, *nodes: Object) -> None:
        self._core = core
        self._nodes = {each["metadata"]["name"]: each for each in nodes}
        self.patches = 0
        self.is_away = False
        for each in nodes:
            core.observe(Event(HOME, SYSTEM, Kind.NODE, each))

    async def request(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes = b""
    ) -> Response:
        if self.is_away:
            raise Unreachable("away", sent=True)
        assert method == "PATCH"
        self.patches += 1
        found = self._nodes[path.rpartition("/")[2]]
        noted = found["metadata"].setdefault("annotations", {})
        for key, text in orjson.loads(body)["metadata"]["annotations"].items():
            if text is None:
                noted.pop(key, None)
            else:
                noted[key] = text
        return Response(
            200, {}, orjson.dumps({**found, "metadata": {**found["metadata"], "resourceVersion": "1"}})
        )

    def tell(self) -> None:
        """The watch catches up."""
        for each in self._nodes.values():
            self._core.observe(Event(HOME, SYSTEM, Kind.NODE, each))

    def held(self, name: str) -> dict[str, int]:
        return dict(read_node(self._nodes[name]).held.get(PLANE, {}))

    def stream(self, path: str, headers: Mapping[str, str]) -> AbstractAsyncContextManager[Stream]:
        raise NotImplementedError

    async def close(self) -> None:
        pass


def _desk(*nodes: Object) -> tuple[Scheduler, Home, Escrow]:
    core = Scheduler(lambda: 0.0)
    core.add_plane(PLANE, BIG)
    home = Home(core, *nodes)
    client = Client(home)
    return core, home, Escrow(core.world, lambda: client)


def _noting(name: str, **held: int) -> Object:
    made = node(name, cpu="4")
    made["metadata"]["annotations"] = {held_key(PLANE): msgspec.json.encode(held).decode()}
    return made


def _placed(core: Scheduler) -> list[str]:
    found = []
    while (decision := core.schedule_next()) is not None:
        if isinstance(decision, Bind):
            found.append(decision.pod.name)
    return found


def _ask(core: Scheduler, name: str, tenant: TenantId = SMALL, plane: PlaneId = HOME, **spec: Any) -> None:
    core.observe(Event(plane, tenant, Kind.POD, pod(name, **spec)))


async def test_a_note_is_written_before_the_first_pod_and_covers_a_few_more() -> None:
    core, home, escrow = _desk(node("n", cpu="16"))
    core.know_plane(PLANE)
    for number in range(4):
        _ask(core, f"p{number}", BIG, PLANE, cpu="1")
        assert _placed(core) == [f"p{number}"]
        assert await escrow.cover(PLANE, "n")
        assert home.held("n")["cpu"] >= 1000 * (number + 1)
        assert home.held("n")["pods"] >= number + 1
    assert home.patches < 4


async def test_pods_of_the_home_plane_need_no_note() -> None:
    core, home, escrow = _desk(node("n"))
    _ask(core, "p", cpu="1")
    assert _placed(core) == ["p"]
    assert await escrow.cover(HOME, "n")
    assert home.patches == 0


async def test_what_could_not_be_noted_is_not_covered() -> None:
    core, home, escrow = _desk(node("n"))
    core.know_plane(PLANE)
    _ask(core, "p", BIG, PLANE, cpu="1")
    _placed(core)
    home.is_away = True
    assert not await escrow.cover(PLANE, "n")
    home.is_away = False
    assert await escrow.cover(PLANE, "n")


def test_notes_count_while_the_planes_pods_are_not_known() -> None:
    core, home, _ = _desk(_noting("n", cpu=3000, pods=3))
    _ask(core, "a", cpu="1")
    _ask(core, "b", cpu="1")
    assert _placed(core) == ["a"]
    core.observe(Event(PLANE, BIG, Kind.POD, pod("theirs", cpu="2", on="n")))
    core.know_plane(PLANE)
    assert _placed(core) == []  # Two are in use, three were noted: one may be on its way.
    core.settle_plane(PLANE)
    assert _placed(core) == ["b"]
    home.tell()
    assert core.world.nodes.requested[0, core.world.nodes.slots["n"]] == 4000


def test_what_comes_late_from_an_earlier_scheduler_finds_its_place_still_free() -> None:
    core, home, _ = _desk(_noting("n", cpu=3000, pods=3))
    _ask(core, "a", cpu="2")
    core.know_plane(PLANE)
    assert _placed(core) == []
    core.observe(Event(PLANE, BIG, Kind.POD, pod("late", cpu="2", on="n")))
    core.settle_plane(PLANE)
    home.tell()
    assert _placed(core) == ["a"]
    assert core.world.nodes.requested[0, core.world.nodes.slots["n"]] == 4000


async def test_notes_keep_covering_what_may_come_late() -> None:
    core, home, escrow = _desk(_noting("n", cpu=2000, pods=2))
    core.know_plane(PLANE)
    _ask(core, "b", BIG, PLANE, cpu="1")
    assert _placed(core) == ["b"]
    assert await escrow.cover(PLANE, "n")
    assert home.held("n")["cpu"] >= 3000
    home.tell()
    assert core.world.nodes.requested[0, core.world.nodes.slots["n"]] == 3000


def test_own_notes_count_nothing_once_the_plane_is_listed() -> None:
    core, home, _ = _desk(node("n", cpu="4"))
    core.know_plane(PLANE)
    home._nodes["n"] = _noting("n", cpu=4000)
    home.tell()
    assert core.world.nodes.requested[0, core.world.nodes.slots["n"]] == 0


def test_a_node_that_comes_back_after_the_list_is_counted_by_its_note() -> None:
    core, home, _ = _desk(_noting("n", cpu=3000))
    core.observe(Event(HOME, SYSTEM, Kind.NODE, node("n"), True))
    core.know_plane(PLANE)
    home.tell()
    assert core.world.nodes.requested[0, core.world.nodes.slots["n"]] == 3000
    core.settle_plane(PLANE)
    assert core.world.nodes.requested[0, core.world.nodes.slots["n"]] == 0


def test_notes_of_planes_that_never_joined_count_too() -> None:
    core = Scheduler(lambda: 0.0)
    Home(core, _noting("n", cpu=4000))
    _ask(core, "a", cpu="1")
    assert _placed(core) == []


def test_a_plane_that_is_removed_leaves_its_notes_counting_until_they_are_gone() -> None:
    core, home, _ = _desk(_noting("n", cpu=4000))
    core.settle_plane(PLANE)
    core.remove_plane(PLANE)
    _ask(core, "a", cpu="1")
    assert _placed(core) == []
    home._nodes["n"]["metadata"]["annotations"].clear()
    home.tell()
    assert _placed(core) == ["a"]


def test_a_note_that_makes_no_sense_notes_nothing() -> None:
    made = node("n")
    made["metadata"]["annotations"] = {held_key(PLANE): "much"}
    assert read_node(made).held == {}


def test_nodes_with_notes_that_flap_leave_nothing_behind() -> None:
    core, home, _ = _desk(_noting("n", cpu=3000))
    for _ in range(3):
        core.observe(Event(HOME, SYSTEM, Kind.NODE, node("n"), True))
        home.tell()
    assert core.world.nodes.requested[0, core.world.nodes.slots["n"]] == 3000
    core.settle_plane(PLANE)
    assert core.world.nodes.requested[0, core.world.nodes.slots["n"]] == 0

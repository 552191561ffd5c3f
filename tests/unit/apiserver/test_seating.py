"""A request's seats: in its priority level, then among all tenants; all of them are returned, whatever happens."""

import pytest

from alcove.api.errors import TooManyRequests
from alcove.api.ids import TenantId
from alcove.api.objects import Object
from alcove.api.resources import PRIORITY_LEVELS
from alcove.apiserver.call import ApiCall
from alcove.apiserver.flow import FlowController, FlowLimits
from alcove.apiserver.identity import Identity
from alcove.apiserver.metering import LoopMeter
from alcove.apiserver.paths import parse
from alcove.apiserver.priority.divisions import Divisions
from alcove.apiserver.seating import RequestSeats
from alcove.http.messages import HttpRequest
from alcove.testing.memory_reader import MemoryReader

ACME = TenantId("acme")


class NoObjects:
    def count(self, *_arguments: object) -> int:
        return 0


def call(user: str = "ann") -> ApiCall:
    request = HttpRequest("GET", "/api/v1/namespaces/web/pods/a", "", {}, b"")
    made = ApiCall(request, parse(request.path), 0.0)
    made.identity, made.verb, made.tenant = Identity(ACME, user, ("system:authenticated",)), "get", ACME
    return made


def default_level(**limited: object) -> Object:
    """Replaces the built-in level `global-default`, to which all requests here go."""
    queuing = {"queues": 2, "handSize": 1, "queueLengthLimit": 5}
    fixed = {"limitResponse": {"type": "Queue", "queuing": queuing}, **limited}
    return {"metadata": {"name": "global-default"}, "spec": {"type": "Limited", "limited": fixed}}


def seating(
    level: Object | None = None, queue_max: int = 5
) -> tuple[RequestSeats, FlowController, Divisions]:
    limits = FlowLimits(
        seats=10,
        seats_per_tenant=8,
        seats_of_system=2,
        queue_per_tenant_max=queue_max,
        wait_seconds_max=0.01,
    )
    reader, flow = MemoryReader(), FlowController(limits)
    if level is not None:
        reader.put(ACME, PRIORITY_LEVELS, level)
    divisions = Divisions(reader, limits)
    divisions.load()
    seats = RequestSeats(flow, divisions, LoopMeter(flow.charge), NoObjects())  # type: ignore[arg-type]
    return seats, flow, divisions


async def test_without_configuration_there_is_one_kind_of_seats() -> None:
    seats, flow, _ = seating()
    made = call()
    assert seats.take(made) is None
    assert (made.seats, made.level_seats, made.flow, flow.in_use) == (1, 0, None, 1)
    seats.release(made)
    assert flow.in_use == 0


async def test_with_configuration_a_request_has_both() -> None:
    seats, flow, divisions = seating(default_level(nominalConcurrencyShares=1000))
    made = call()
    assert seats.take(made) is None
    assert (made.seats, made.level_seats, flow.in_use) == (1, 1, 1)
    division = divisions.of(ACME)
    assert division is not None and not division.seats.is_idle
    seats.release(made)
    seats.release(made)
    assert (made.seats, made.level_seats, flow.in_use) == (0, 0, 0)


async def test_whoever_waits_too_long_in_a_level_is_told_which() -> None:
    seats, flow, _ = seating(default_level(nominalConcurrencyShares=0, borrowingLimitPercent=0))
    waiting = seats.take(call())
    assert waiting is not None
    with pytest.raises(TooManyRequests, match='"global-default": it waited for too long'):
        await waiting
    assert (flow.in_use, seats.rejected_in_levels) == (0, 1)


async def test_a_level_gets_its_seats_back_if_the_tenant_has_none_left() -> None:
    seats, flow, _ = seating(default_level(nominalConcurrencyShares=1000), queue_max=0)
    assert flow.try_acquire(ACME, 8)
    made = call()
    waiting = seats.take(made)
    assert waiting is not None and made.level_seats == 1
    with pytest.raises(TooManyRequests, match='too many requests of tenant "acme"'):
        await waiting
    assert (made.seats, made.level_seats) == (0, 0)
    assert seats.rejected_in_levels == 0

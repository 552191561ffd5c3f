"""Connections are counted by address until they are authenticated, then by group; nobody loses another's."""

import pytest
from msgspec import structs

from alcove.http.connections import ConnectionSlot, ConnectionTable, network_of
from alcove.http.limits import HttpLimits

LIMITS = HttpLimits(
    connections_max=100,
    connections_per_group_max=20,
    connections_reserved=10,
    unauthenticated_max=12,
    unauthenticated_per_address_max=4,
    unauthenticated_seconds_max=30.0,
)


class Clients:
    """Connections that end as soon as they are closed."""

    def __init__(self, **limits: int) -> None:
        self.table = ConnectionTable(structs.replace(LIMITS, **limits), unlimited="ring0")
        self.closed: list[ConnectionSlot] = []

    def open(self, address: str, now: float = 0.0) -> ConnectionSlot:
        slot = self.table.open(address, now)
        assert slot is not None

        def close() -> None:
            self.closed.append(slot)
            self.table.closed(slot)

        slot.close = close
        return slot

    def opened(self, address: str, group: str) -> bool:
        return self.open(address).claim(group)


def test_an_address_with_too_many_strangers_loses_its_oldest() -> None:
    clients = Clients()
    other = clients.open("10.0.0.2")
    flood = [clients.open("10.0.0.1") for _ in range(6)]
    assert clients.closed == flood[:2] and other not in clients.closed


def test_a_client_that_waits_for_its_handshake_outlasts_those_that_say_nothing() -> None:
    clients = Clients()
    quiet = clients.open("10.0.0.1")
    quiet.awaits_server = True
    flood = [clients.open("10.0.0.1") for _ in range(8)]
    assert clients.closed == flood[:5]


def test_of_an_address_whose_clients_all_wait_for_the_server_the_first_stay() -> None:
    clients = Clients()
    flood = [clients.open("10.0.0.1") for _ in range(4)]
    for slot in flood:
        slot.awaits_server = True
    clients.open("10.0.0.1")
    assert clients.closed == flood[3:]


def test_a_client_that_authenticates_at_once_is_served_behind_the_address_of_a_flood() -> None:
    clients = Clients()
    agent = clients.open("10.0.0.1")
    assert agent.claim("ring0")
    for _ in range(20):
        clients.open("10.0.0.1")
    late = clients.open("10.0.0.1")
    assert late.claim("acme")
    assert agent not in clients.closed and late not in clients.closed


def test_strangers_of_many_addresses_close_those_of_the_address_with_most() -> None:
    clients = Clients()
    for number in range(9):
        clients.open(f"10.0.1.{number}")
    most = [clients.open("10.0.0.1") for _ in range(3)]
    clients.open("10.0.2.1")
    assert clients.closed == most[:1]


def test_a_connection_that_takes_its_time_to_close_is_not_chosen_again() -> None:
    clients = Clients()
    flood = [clients.open("10.0.0.1") for _ in range(4)]
    closing: list[ConnectionSlot] = []
    for slot in flood:
        slot.close = lambda slot=slot: closing.append(slot)  # type: ignore[misc]
    for _ in range(3):
        clients.open("10.0.0.1")
    assert closing == flood[:3]
    for slot in closing:
        clients.table.closed(slot)
    assert clients.table.count == 4


def test_a_group_with_too_many_connections_is_refused_and_others_are_not() -> None:
    clients = Clients()
    assert all(clients.opened("10.0.0.1", "acme") for _ in range(20))
    assert not clients.opened("10.0.0.1", "acme")
    assert clients.opened("10.0.0.1", "globex")


def test_however_many_groups_take_what_they_get_ring0_and_strangers_find_room() -> None:
    clients = Clients()
    for number in range(50):
        for _ in range(20):
            slot = clients.open(f"10.0.{number}.1")
            if not slot.claim(f"group-{number}"):
                slot.close()
    assert clients.table.count <= 100 - 10 - 12
    assert all(clients.opened("10.9.0.1", "ring0") for _ in range(10))
    closed = len(clients.closed)
    for number in range(12):
        clients.open(f"10.9.1.{number}")
    assert len(clients.closed) == closed


def test_a_connection_counts_for_the_group_of_its_last_request() -> None:
    clients = Clients(connections_per_group_max=1)
    proxy = clients.open("10.0.0.1")
    assert proxy.claim("acme") and proxy.claim("globex")
    assert clients.opened("10.0.0.1", "acme")
    assert not clients.opened("10.0.0.1", "globex")


def test_only_strangers_have_a_deadline() -> None:
    clients = Clients()
    silent, served = clients.open("10.0.0.1", 1.0), clients.open("10.0.0.1", 1.0)
    later = clients.open("10.0.0.1", 20.0)
    assert served.claim("acme")
    clients.table.close_expired(31.0)
    assert clients.closed == [silent]
    clients.table.close_expired(50.0)
    assert clients.closed == [silent, later]


def test_nothing_is_counted_after_all_are_closed() -> None:
    clients = Clients()
    slots = [clients.open("10.0.0.1") for _ in range(3)]
    assert slots[0].claim("acme")
    for slot in slots:
        slot.close()
    table = vars(clients.table)
    assert clients.table.count == 0 and not table["_strangers"] and not len(table["_counts"])


def test_an_address_that_sends_many_parts_of_requests_loses_the_connection_that_holds_most() -> None:
    clients = Clients(unauthenticated_bytes_per_address_max=1_000)
    quiet, stranger = clients.open("10.0.0.1"), clients.open("10.0.0.2")
    quiet.hold(100)
    stranger.hold(900)
    flood = [clients.open("10.0.0.1") for _ in range(3)]
    for number, slot in enumerate(flood):
        slot.hold(400 + number)
    assert clients.closed == [flood[2]]
    flood[0].hold(0)
    flood[1].hold(900)
    assert clients.closed == [flood[2]]


def test_strangers_of_many_addresses_lose_the_largest_request_of_the_address_with_most_bytes() -> None:
    clients = Clients(unauthenticated_bytes_max=1_000)
    slots = [clients.open(f"10.0.0.{number}") for number in range(4)]
    for slot, count in zip(slots, (200, 400, 300, 200), strict=True):
        slot.hold(count)
    assert clients.closed == [slots[1]]


def test_bytes_of_a_connection_are_counted_for_its_group_until_it_is_closed() -> None:
    counted: list[tuple[str, int]] = []
    table = ConnectionTable(LIMITS, count_bytes=lambda group, count: counted.append((group, count)))
    slot = table.open("10.0.0.1", 0.0)
    assert slot is not None
    slot.hold(70)
    assert not counted
    assert slot.claim("acme")
    slot.hold(100)
    slot.hold(40)
    assert slot.claim("globex")
    table.closed(slot)
    slot.hold(0)
    assert counted == [
        ("acme", 70),
        ("acme", 30),
        ("acme", -60),
        ("acme", -40),
        ("globex", 40),
        ("globex", -40),
    ]
    assert vars(table)["_strangers_bytes"] == {} and vars(table)["_strangers_bytes_sum"] == 0


def test_a_group_loses_the_connections_that_hold_most() -> None:
    clients = Clients()
    slots = [clients.open("10.0.0.1") for _ in range(3)]
    other = clients.open("10.0.0.2")
    assert all(slot.claim("acme") for slot in slots) and other.claim("globex")
    for slot, count in zip((*slots, other), (10, 300, 200, 900), strict=True):
        slot.hold(count)
    slots[1].is_busy = True
    clients.table.shed("acme", 100)
    assert clients.closed == [slots[2]], "what is being answered is refused by its handler, if at all"
    slots[1].is_busy = False
    slots[2] = clients.open("10.0.0.1")
    assert slots[2].claim("acme")
    slots[2].hold(200)
    clients.closed.clear()
    clients.table.shed("acme", 400)
    assert clients.closed == [slots[1], slots[2]]
    clients.table.shed("acme", 400)
    clients.table.shed("acme", 400)
    assert clients.closed == [slots[1], slots[2], slots[0]]


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("10.0.0.1", "10.0.0.2", False),
        ("2001:db8::1", "2001:db8::ffff:1:2:3", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("fe80::1%eth0", "fe80::2", True),
        ("::ffff:10.0.0.1", "10.0.0.1", True),
    ],
)
def test_a_machine_cannot_count_as_many(one: str, other: str, is_same: bool) -> None:
    assert (network_of(one) == network_of(other)) is is_same

"""Who is told that a network's connections are too many for its table, and how often."""

from ipaddress import ip_address

import numpy as np

from alcove.agent.network.flood_events import HOUR_SECONDS, FloodLimit, busiest
from alcove.agent.podkey import PodKey
from alcove.api.ids import TenantId
from alcove.client.keys import HOME
from alcove.dataplane.address import pack
from alcove.dataplane.maps import OPENING, TUPLE, FlowFlag
from alcove.dataplane.node_dataplane import MEMORY_ENTRIES
from alcove.dataplane.openings import EMPTY, OPENING_FIELDS, address_word

MANY = MEMORY_ENTRIES + 1
WEB, DB = "10.0.0.5", "10.0.0.9"
POD = PodKey(HOME, TenantId("acme"), "default", "web", "u")


def test_only_a_flooded_network_is_reported_and_once_an_hour() -> None:
    now = 0.0
    limit = FloodLimit(lambda: now)
    assert limit.flooded({7: 10 * MANY, 8: 0}) == {}, "how long that took is not known"
    assert limit.flooded({7: 11 * MANY, 8: MEMORY_ENTRIES}) == {7: MANY}
    assert limit.flooded({7: 12 * MANY, 8: 2 * MANY}) == {8: 2 * MANY - MEMORY_ENTRIES}
    now = HOUR_SECONDS
    assert limit.flooded({7: 13 * MANY, 8: 2 * MANY}) == {7: MANY}


def test_a_network_that_comes_back_begins_anew() -> None:
    limit = FloodLimit(lambda: 0.0)
    limit.flooded({7: 0})
    assert limit.flooded({7: MANY}) == {7: MANY}
    assert limit.flooded({}) == {}
    limit.flooded({7: 0})
    assert limit.flooded({7: MANY}) == {7: MANY}


def opening(source: str, target: str, flags: int = 0) -> bytes:
    ends = pack(ip_address(source)), pack(ip_address(target))
    return OPENING.pack(TUPLE.pack(*ends, b"\0\1", b"\0\2", 6, flags), 7, 1)


def test_the_opener_of_most_connections_is_told() -> None:
    pods = {address_word(pack(ip_address(WEB))): POD}
    swapped = int(FlowFlag.SWAPPED)
    mixed = [opening(WEB, DB), opening(DB, WEB, swapped), opening(DB, WEB)]
    assert busiest(np.frombuffer(b"".join(mixed), OPENING_FIELDS), pods) == POD
    others = [opening(DB, WEB), opening(DB, WEB), opening(WEB, DB)]
    assert busiest(np.frombuffer(b"".join(others), OPENING_FIELDS), pods) is None
    assert busiest(EMPTY, pods) is None

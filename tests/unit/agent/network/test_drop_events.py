"""How many events a pod gets for its drops."""

from ipaddress import ip_address

from msgspec.structs import replace

from alcove.agent.network.drop_events import EVENTS_PER_POD_MAX, HOUR_SECONDS, EventLimit
from alcove.agent.podkey import PodKey
from alcove.api.ids import TenantId
from alcove.client.keys import HOME
from alcove.dataplane.drops import DropReason
from alcove.dataplane.flows import ObservedDrop

POD = PodKey(HOME, TenantId("acme"), "default", "web", "u")
DROP = ObservedDrop(
    DropReason.POLICY_EGRESS, ip_address("10.0.0.5"), ip_address("10.0.0.9"), 5432, 6, 60, 1, 0.0, 0.0
)


def test_a_kind_of_drop_is_told_once_an_hour_and_a_scan_not_without_end() -> None:
    now = 0.0
    limit = EventLimit(lambda: now)
    assert limit.admits(POD, DROP)
    assert not limit.admits(POD, DROP)
    told = [limit.admits(POD, replace(DROP, target_port=port)) for port in range(100)]
    assert sum(told) == EVENTS_PER_POD_MAX - 1
    now = HOUR_SECONDS
    assert limit.admits(POD, DROP)


def test_one_pods_scan_leaves_others_their_events() -> None:
    limit = EventLimit(lambda: 0.0)
    for port in range(100):
        limit.admits(POD, replace(DROP, target_port=port))
    other = replace(POD, name="other")
    assert limit.admits(other, DROP)
    limit.forget_others({other})
    assert limit.admits(POD, DROP), "a pod that is gone has no record"
    assert not limit.admits(other, DROP)

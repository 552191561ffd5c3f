"""How many events a pod gets for its drops."""

from ipaddress import ip_address

from msgspec.structs import replace

from alcove.agent.network.drop_events import (
    EVENTS_PER_POD_MAX,
    HOUR_SECONDS,
    EventLimit,
    changed,
    explained_to,
)
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


def test_only_networks_with_new_drops_are_read() -> None:
    assert changed({}, {7: 0, 8: 0}) == []
    assert changed({7: 3, 8: 5}, {7: 3, 8: 6, 9: 1}) == [8, 9]


def test_a_drop_is_explained_to_the_pod_whose_policy_or_packet_it_was() -> None:
    client, server = POD, replace(POD, name="server")
    ends = {ip_address("10.0.0.5"): client, ip_address("10.0.0.9"): server}
    assert explained_to(DROP, ends) == client
    refused = replace(DROP, reason=DropReason.POLICY_INGRESS)
    assert explained_to(refused, ends) == server
    assert explained_to(DROP, {ip_address("10.0.0.9"): server}) == server
    assert explained_to(DROP, {}) is None
    assert explained_to(replace(DROP, source=None, target=None), ends) is None

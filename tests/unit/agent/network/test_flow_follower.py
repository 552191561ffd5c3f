"""What waits to be sent is bounded, and what is left out is counted."""

from ipaddress import ip_address

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from alcove.agent.network.flow_follower import Backlog, fair_share, wanted_words
from alcove.agent.network.flow_reports import FlowSelection
from alcove.api.ids import TenantId
from alcove.dataplane.address import pack
from alcove.dataplane.openings import OPENING_FIELDS, Openings, address_word
from alcove.network.endpoints import EndpointAllocation
from alcove.network.owners import OwnerRef


def openings(*numbers: int) -> Openings:
    found = np.zeros(len(numbers), OPENING_FIELDS)
    found["number"] = numbers
    return found


def test_a_backlog_keeps_the_newest_and_counts_the_others() -> None:
    backlog = Backlog()
    assert backlog.add(openings(1, 2, 3), 5) == 0
    assert backlog.add(openings(4, 5, 6, 7), 5) == 2
    assert backlog.add(openings(8), 5) == 1
    assert backlog.newest(9)["number"].tolist() == [4, 5, 6, 7, 8]
    assert backlog.newest(2)["number"].tolist() == [7, 8]


def test_more_at_once_than_a_backlog_holds() -> None:
    backlog = Backlog()
    backlog.add(openings(1, 2), 3)
    assert backlog.add(openings(*range(10, 20)), 3) == 9
    assert backlog.newest(3)["number"].tolist() == [17, 18, 19]


@given(sizes=st.lists(st.integers(0, 50), max_size=8), total=st.integers(0, 100))
def test_busy_networks_share_what_quiet_ones_leave(sizes: list[int], total: int) -> None:
    share = fair_share(sizes, total)
    assert sum(min(size, share) for size in sizes) <= total
    if sum(sizes) > total:
        assert sum(min(size, share + 1) for size in sizes) > total
    else:
        assert all(size <= share for size in sizes)


def test_only_the_pods_that_are_asked_for_are_selected() -> None:
    def pod(namespace: str, name: str, address: str) -> EndpointAllocation:
        owner = OwnerRef(TenantId("red"), namespace, name)
        return EndpointAllocation(name, "simple", name, owner, 7, ip_address(address))

    pods = [pod("shop", "web", "10.0.0.1"), pod("shop", "db", "10.0.0.2"), pod("lab", "web", "fd00::3")]

    def selected(**selection: str) -> set[int]:
        return set(wanted_words(FlowSelection(**selection), pods).tolist())  # type: ignore[arg-type]

    words = [address_word(pack(ip_address(text))) for text in ("10.0.0.1", "10.0.0.2", "fd00::3")]
    assert selected(pod="web") == {words[0], words[2]}
    assert selected(namespace="shop") == set(words[:2])
    assert selected(namespace="shop", pod="web") == {words[0]}
    assert selected(pod="nobody") == set()

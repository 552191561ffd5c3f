"""What counts as a change of a flow."""

import pytest
from msgspec.structs import replace

from alcove.agent.network.flow_changes import FlowChanges
from alcove.api.node_api import FlowEnd, FlowReport

FLOW = FlowReport(
    tenant="red",
    network="own",
    direction="egress",
    verdict="forwarded",
    protocol="TCP",
    source=FlowEnd("10.0.0.5", 4000),
    destination=FlowEnd("10.0.0.9", 5432),
    start=1_700_000_000.0,
    end=1_700_000_100.0,
    packets_sent=3,
)
DROP = replace(FLOW, verdict="dropped", reason="NoRoute")


@pytest.mark.parametrize(
    ("later", "with_growth", "is_change"),
    [
        (FLOW, False, False),
        (replace(FLOW, start=FLOW.start + 1.0), False, False),
        (replace(FLOW, start=FLOW.start + 3.0), False, True),
        (replace(FLOW, packets_received=1), False, False),
        (replace(FLOW, packets_received=1), True, True),
        (replace(FLOW, source=FlowEnd("10.0.0.5", 4001)), False, True),
        (replace(FLOW, tenant="blue"), False, True),
    ],
)
def test_a_connection_is_new_once_unless_its_ports_are_used_again(
    later: FlowReport, with_growth: bool, is_change: bool
) -> None:
    changes = FlowChanges(10, with_growth=with_growth)
    assert changes.of([FLOW]) == [FLOW]
    assert changes.of([later]) == ([later] if is_change else [])


def test_more_drops_are_always_a_change() -> None:
    changes = FlowChanges(10, with_growth=False)
    more = replace(DROP, packets_sent=4)
    assert [changes.of([each]) for each in (DROP, DROP, more)] == [[DROP], [], [more]]


def test_the_oldest_are_forgotten_first() -> None:
    changes = FlowChanges(2, with_growth=False)
    flows = [
        replace(FLOW, source=FlowEnd("10.0.0.5", port), end=FLOW.end + port) for port in range(4000, 4003)
    ]
    assert changes.of(reversed(flows)) == flows
    assert changes.of(flows) == flows[:1]

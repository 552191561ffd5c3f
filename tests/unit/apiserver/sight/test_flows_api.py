"""Flows of several nodes: the newest of them, and of the tenant that asks only."""

import msgspec

from alcove.api.ids import TenantId
from alcove.api.node_api import FlowEnd, FlowReport, NodeFlows
from alcove.apiserver.sight.flows_api import NewestFlows


def report(tenant: str, end: float) -> FlowReport:
    ends = FlowEnd("10.0.0.5", 0), FlowEnd("10.0.0.9", 80)
    return FlowReport(tenant, "own", "egress", "forwarded", "TCP", *ends, start=0.0, end=end)


def body(*reports: FlowReport, left_out: int = 0, full: tuple[str, ...] = ()) -> bytes:
    return msgspec.json.encode(NodeFlows(reports, left_out, full))


def test_the_newest_of_all_nodes_are_kept_and_the_others_counted() -> None:
    newest = NewestFlows(TenantId("acme"), 3)
    newest.add("n1", body(*(report("acme", end) for end in (9.0, 5.0, 1.0)), left_out=2))
    newest.add("n2", body(*(report("acme", end) for end in (8.0, 7.0)), full=("acme/own",)))
    assert [(node, flow.end) for node, flow in newest.flows] == [("n1", 9.0), ("n2", 8.0), ("n2", 7.0)]
    assert newest.left_out == 4
    assert newest.warnings() == [
        "older flows are missing, the tables of connections of these networks are full: acme/own"
    ]


def test_a_node_that_sends_others_flows_or_rubbish_shows_nothing_of_it() -> None:
    newest = NewestFlows(TenantId("acme"), 10)
    newest.add("n1", body(report("beta", 9.0), report("acme", 1.0)))
    newest.add("n2", b'{"flows": [{"tenant": "acme"}]}')
    newest.add("n3", b"no JSON")
    assert [flow.tenant for _, flow in newest.flows] == ["acme"]
    assert newest.warnings() == ["flows of 2 nodes are missing, they did not respond: n2, n3"]
    everything = NewestFlows(None, 10)
    everything.add("n1", body(report("beta", 9.0), report("acme", 1.0)))
    assert len(everything.flows) == 2

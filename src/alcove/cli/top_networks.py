"""`alcove top networks`: how much each network carries now, and what it drops."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from msgspec import Struct, field

if TYPE_CHECKING:
    from alcove.api.objects import Object
    from alcove.cli.session import CliSession

HEADS = ("TENANT", "NETWORK", "CONNECTIONS", "BYTES/S", "PACKETS/S", "DROPS/S", "MOST DROPPED FOR")
RECENT_SECONDS = 30
"""Connections with packets in so long before count as current."""
FLOWS_MAX = 10_000
_FlowKey = tuple[object, ...]


class NetworkLoad(Struct):
    connections: int = 0
    bytes: int = 0
    packets: int = 0
    drops: Counter[str] = field(default_factory=Counter)
    """Packets by reason."""


def rows(session: CliSession, interval: float) -> list[tuple[object, ...]]:
    """The networks that the caller may see and that have had packets lately, those with the most bytes first."""
    from alcove.cli.flows import FlowQuery

    query = FlowQuery("", "", "", "", RECENT_SECONDS, FLOWS_MAX)
    before, began = query.fetch(session, RECENT_SECONDS), time.monotonic()
    time.sleep(interval)
    after = query.fetch(session, RECENT_SECONDS)
    seconds = time.monotonic() - began
    found = sorted(loads(before, after).items(), key=lambda each: (-each[1].bytes, each[0]))
    return [
        (
            tenant,
            network,
            load.connections,
            round(load.bytes / seconds),
            round(load.packets / seconds),
            f"{load.drops.total() / seconds:.1f}",
            ", ".join(reason for reason, _ in load.drops.most_common(1)),
        )
        for (tenant, network), load in found
    ]


def loads(before: Iterable[Object], after: Iterable[Object]) -> dict[tuple[str, str], NetworkLoad]:
    """By tenant and network: current connections, and what was added between two lists of flows. A connection that two
    nodes have seen counts once. Pure."""
    known, current = _by_connection(before), _by_connection(after)
    found: dict[tuple[str, str], NetworkLoad] = {}
    for key, flow in current.items():
        load = found.setdefault((flow["metadata"].get("tenant", ""), flow["network"]), NetworkLoad())
        earlier = known.get(key)
        # The same ports again are another connection.
        start = earlier if earlier is not None and earlier["start"] == flow["start"] else {}
        packets = _sum(flow, "packets") - _sum(start, "packets")
        if flow["verdict"] == "dropped":
            load.drops[flow.get("reason", "")] += max(0, packets)
            continue
        load.connections += 1
        load.bytes += max(0, _sum(flow, "bytes") - _sum(start, "bytes"))
        load.packets += max(0, packets)
    return found


def _by_connection(flows: Iterable[Object]) -> dict[_FlowKey, Object]:
    """Of the reports of one connection, always that of the same node: counters of two nodes differ in the moment."""
    found: dict[_FlowKey, Object] = {}
    for flow in sorted(flows, key=lambda each: str(each["node"]), reverse=True):
        ends = (flow[end].get(part) for end in ("source", "destination") for part in ("address", "port"))
        names = (
            flow["metadata"].get("tenant", ""),
            flow["network"],
            flow["protocol"],
            flow["verdict"],
            flow.get("reason"),
        )
        found[*names, *ends] = flow
    return found


def _sum(flow: Object, kind: str) -> int:
    return int(flow.get(f"{kind}Sent", 0)) + int(flow.get(f"{kind}Received", 0))

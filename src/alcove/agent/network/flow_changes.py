"""Which flows are new or have changed since they were last read: exports and streams send each change once."""

from collections.abc import Iterable

from alcove.api.node_api import FlowReport
from alcove.dataplane.flows import TICK_SECONDS

SAME_START_SECONDS = 2 * TICK_SECONDS
"""Starts of one connection differ by less from one reading to the next; of the same ports again they differ by more."""


class FlowChanges:
    def __init__(self, kept_max: int, *, with_growth: bool) -> None:
        """Remembers `kept_max` flows: of more, the oldest may count as new again. `with_growth`: more packets of a
        connection are a change; more packets that were dropped always are."""
        self._kept_max = kept_max
        self._with_growth = with_growth
        self._known: dict[int, tuple[float, int]] = {}
        """Start and number of packets, by the hash of what identifies a flow: tens of thousands are remembered."""

    def new(self, flows: Iterable[FlowReport]) -> list[FlowReport]:
        """Those of these that are not known, the oldest first. What has changed of others is left to `of`."""
        return self.of([flow for flow in flows if self._is_new(flow)])

    def _is_new(self, flow: FlowReport) -> bool:
        known = self._known.get(hash(_identity(flow)))
        return known is None or abs(flow.start - known[0]) > SAME_START_SECONDS

    def of(self, flows: Iterable[FlowReport]) -> list[FlowReport]:
        """The new and changed ones of these, the oldest first."""
        changed = []
        for flow in sorted(flows, key=lambda each: each.end):
            key, packets = hash(_identity(flow)), flow.packets_sent + flow.packets_received
            known = self._known.pop(key, None)
            if known is None or self._is_change(flow, packets, *known):
                changed.append(flow)
            self._known[key] = flow.start, packets
        while len(self._known) > self._kept_max:
            del self._known[next(iter(self._known))]
        return changed

    def _is_change(self, flow: FlowReport, packets: int, known_start: float, known_packets: int) -> bool:
        if abs(flow.start - known_start) > SAME_START_SECONDS:
            return True
        return packets != known_packets and (self._with_growth or flow.verdict == "dropped")


def _identity(flow: FlowReport) -> tuple[object, ...]:
    ends = (flow.source.address, flow.source.port, flow.destination.address, flow.destination.port)
    return (flow.tenant, flow.network, flow.protocol, flow.verdict, flow.reason, *ends)

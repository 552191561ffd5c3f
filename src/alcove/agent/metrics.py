"""A node's Prometheus metrics: pods, dropped packets by reason, connections and drops of the busiest networks, exported flows, the
expiration of its certificate. Collected when they are scraped."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from alcove.dataplane.drops import DropCount, DropReason

Drops = Callable[[], Mapping[DropReason, DropCount]]
NETWORKS_SHOWN = 20
"""Networks of a node that have series: those that have opened, and those that have dropped, the most."""


class NetworkCounts(Struct, frozen=True):
    """A network's connections and dropped packets on this node."""

    tenant: str
    network: str
    opened: int
    dropped: int


class AgentMetrics(Collector):
    def __init__(self) -> None:
        self.pods: Callable[[], int] = lambda: 0
        self.drops: Drops = dict
        self.certificate_ends: Callable[[], float] = lambda: 0.0
        self.networks: Callable[[], Sequence[NetworkCounts]] = tuple
        """All of these are replaced once their sources exist."""
        self.exported_flows: Callable[[], Mapping[tuple[str, str], int]] = dict
        """Flows by export, and by what has become of them."""
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)
        ProcessCollector(registry=self._registry)

    def text(self) -> bytes:
        return generate_latest(self._registry)

    def collect(self) -> Iterable[Metric]:
        yield GaugeMetricFamily("alcove_agent_pods", "Pods of all planes on the node.", value=self.pods())
        if ends := self.certificate_ends():
            description = "Expiration of the node's client certificate, in epoch seconds."
            yield GaugeMetricFamily("alcove_agent_certificate_expiration_seconds", description, value=ends)
        dropped = self.drops()
        packets = CounterMetricFamily(
            "alcove_drops_packets", "Packets dropped, by reason.", labels=("reason",)
        )
        sizes = CounterMetricFamily(
            "alcove_drops_bytes", "Bytes of dropped packets, by reason.", labels=("reason",)
        )
        for reason, count in dropped.items():
            packets.add_metric((reason.name.lower(),), count.packets)
            sizes.add_metric((reason.name.lower(),), count.bytes)
        yield packets
        yield sizes
        yield from _busiest(self.networks())
        flows = CounterMetricFamily(
            "alcove_exported_flows", "Exported flows, by export and result.", labels=("export", "result")
        )
        for labels, number in self.exported_flows().items():
            flows.add_metric(labels, number)
        yield flows


def _busiest(networks: Sequence[NetworkCounts]) -> Iterator[Metric]:
    labels = ("tenant", "network")
    opened = CounterMetricFamily(
        "alcove_network_connections", "Connections that the busiest networks have opened.", labels=labels
    )
    dropped = CounterMetricFamily(
        "alcove_network_drops", "Packets dropped of the networks with the most.", labels=labels
    )
    for each in sorted(networks, key=lambda each: -each.opened)[:NETWORKS_SHOWN]:
        opened.add_metric((each.tenant, each.network), each.opened)
    for each in sorted(networks, key=lambda each: -each.dropped)[:NETWORKS_SHOWN]:
        dropped.add_metric((each.tenant, each.network), each.dropped)
    yield opened
    yield dropped

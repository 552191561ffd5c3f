"""A node's Prometheus metrics: pods, dropped packets by reason, the expiration of its certificate. Collected
when they are scraped."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from alcove.dataplane.drops import DropCount, DropReason

Drops = Callable[[], Mapping[DropReason, DropCount]]


class AgentMetrics(Collector):
    def __init__(self) -> None:
        self.pods: Callable[[], int] = lambda: 0
        self.drops: Drops = dict
        self.certificate_ends: Callable[[], float] = lambda: 0.0
        """All three are replaced once their sources exist."""
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

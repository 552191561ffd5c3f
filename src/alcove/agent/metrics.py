"""What a node counts, as Prometheus reads it: pods, packets dropped by reason, the end of its certificate. Taken when somebody asks."""

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
        """All are set once there is something to tell."""
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)
        ProcessCollector(registry=self._registry)

    def text(self) -> bytes:
        return generate_latest(self._registry)

    def collect(self) -> Iterable[Metric]:
        yield GaugeMetricFamily("alcove_agent_pods", "Pods of all planes on the node.", value=self.pods())
        if ends := self.certificate_ends():
            message = "When the node's client certificate ends, in epoch seconds."
            yield GaugeMetricFamily("alcove_agent_certificate_expiration_seconds", message, value=ends)
        dropped = self.drops()
        packets = CounterMetricFamily(
            "alcove_drops_packets", "Packets dropped, by reason.", labels=("reason",)
        )
        sizes = CounterMetricFamily("alcove_drops_bytes", "Bytes of them.", labels=("reason",))
        for reason, count in dropped.items():
            packets.add_metric((reason.name.lower(),), count.packets)
            sizes.add_metric((reason.name.lower(),), count.bytes)
        yield packets
        yield sizes

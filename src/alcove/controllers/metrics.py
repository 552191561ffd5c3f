"""Controller metrics: per controller; queue depth and usage for the TENANTS_SHOWN tenants with the most.

Updates are a few operations on plain numbers; Prometheus metric types are built only on a scrape.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from alcove.api.usage import FIELDS, UsageAmounts
from alcove.component.histogram import Histogram

if TYPE_CHECKING:
    from alcove.controllers.queue import WorkQueue

TENANTS_SHOWN = 10
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)


class LoopMetrics:
    """The metrics of one controller, in one shard."""

    def __init__(self, controller: str, shard: int = 0) -> None:
        self.controller = controller
        self.shard = shard
        self.queue: WorkQueue | None = None
        self.outcomes: Counter[str] = Counter()
        self.waited = Histogram(SECONDS)
        self.worked = Histogram(SECONDS)

    def observe(self, outcome: str, waited_seconds: float, worked_seconds: float) -> None:
        self.outcomes[outcome] += 1
        self.waited.observe(waited_seconds)
        self.worked.observe(worked_seconds)

    @property
    def retries(self) -> int:
        return sum(self.outcomes[outcome] for outcome in ("outdated", "away", "failed"))


class ControllerMetrics(Collector):
    """The metrics of all controllers. `text` is the body of /metrics."""

    def __init__(self, *, is_sharded: bool = False) -> None:
        """`is_sharded`: series of controllers have the label `shard`."""
        self._labels = ("name", "shard") if is_sharded else ("name",)
        self._loops: list[LoopMetrics] = []
        self.usage: dict[str, UsageAmounts] = {}
        """What tenants that used something lately have used since midnight, by tenant."""
        self._registry = CollectorRegistry()
        self._registry.register(self)
        ProcessCollector(registry=self._registry)

    def loop(self, controller: str, shard: int = 0) -> LoopMetrics:
        created = LoopMetrics(controller, shard)
        others = (each for each in self._loops if (each.controller, each.shard) != (controller, shard))
        self._loops = [*others, created]
        return created

    def _of(self, loop: LoopMetrics) -> tuple[str, ...]:
        """The values of the labels."""
        return (loop.controller, str(loop.shard))[: len(self._labels)]

    def text(self) -> bytes:
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        yield from self._queues()
        yield self._histogram(
            "alcove_workqueue_queue_duration_seconds",
            "Time a key waited in the queue.",
            lambda loop: loop.waited,
        )
        yield self._histogram(
            "alcove_workqueue_work_duration_seconds", "Time a reconcile took.", lambda loop: loop.worked
        )
        results = CounterMetricFamily(
            "alcove_controller_reconciles", "Reconciles by result.", labels=(*self._labels, "result")
        )
        for loop in self._loops:
            for outcome, count in sorted(loop.outcomes.items()):
                results.add_metric((*self._of(loop), outcome), count)
        yield results
        yield _deepest(self._loops)
        yield _most_used(self.usage)

    def _queues(self) -> Iterator[Metric]:
        labels = self._labels
        depth = GaugeMetricFamily("alcove_workqueue_depth", "Keys waiting in the queue.", labels=labels)
        delayed = GaugeMetricFamily("alcove_workqueue_delayed", "Keys to be enqueued later.", labels=labels)
        busy = GaugeMetricFamily("alcove_workqueue_busy", "Keys being reconciled.", labels=labels)
        adds = CounterMetricFamily("alcove_workqueue_adds", "Keys enqueued.", labels=labels)
        retries = CounterMetricFamily("alcove_workqueue_retries", "Keys retried.", labels=labels)
        for loop in self._loops:
            values = self._of(loop)
            retries.add_metric(values, loop.retries)
            if loop.queue is not None:
                depth.add_metric(values, loop.queue.depth)
                delayed.add_metric(values, loop.queue.delayed)
                busy.add_metric(values, loop.queue.processing)
                adds.add_metric(values, loop.queue.added)
        yield from (depth, delayed, busy, adds, retries)

    def _histogram(self, name: str, documentation: str, of: Callable[[LoopMetrics], Histogram]) -> Metric:
        family = HistogramMetricFamily(name, documentation, labels=self._labels)
        for loop in self._loops:
            family.add_metric(self._of(loop), of(loop).buckets(), of(loop).total)
        return family


def _deepest(loops: Sequence[LoopMetrics]) -> Metric:
    depths: Counter[str] = Counter()
    for loop in loops:
        if loop.queue is not None:
            for tenant_key, depth in loop.queue.deepest(TENANTS_SHOWN):
                depths[tenant_key.tenant] += depth
    family = GaugeMetricFamily(
        "alcove_workqueue_tenant_depth",
        "Keys waiting in the queue, for the tenants with the most.",
        labels=("tenant",),
    )
    for tenant, depth in depths.most_common(TENANTS_SHOWN):
        family.add_metric((tenant,), depth)
    return family


def _most_used(usage: Mapping[str, UsageAmounts]) -> Metric:
    family = GaugeMetricFamily(
        "alcove_tenant_usage_today",
        "Usage since midnight (UTC), of the tenants with the most that used something lately.",
        labels=("tenant", "resource"),
    )
    for resource in FIELDS:
        amounts = Counter({tenant: getattr(each, resource) for tenant, each in usage.items()})
        for tenant, amount in amounts.most_common(TENANTS_SHOWN):
            if amount:
                family.add_metric((tenant, resource), amount)
    return family

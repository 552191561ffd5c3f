"""Controller metrics: per controller; queue depth and usage for the TENANTS_SHOWN tenants with the most.

Updates are a few operations on plain numbers; Prometheus metric types are built only on a scrape.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
    """The metrics of one controller."""

    def __init__(self, controller: str) -> None:
        self.controller = controller
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

    def __init__(self) -> None:
        self._loops: list[LoopMetrics] = []
        self.usage: dict[str, UsageAmounts] = {}
        """What tenants that used something lately have used since midnight, by tenant."""
        self._registry = CollectorRegistry()
        self._registry.register(self)
        ProcessCollector(registry=self._registry)

    def loop(self, controller: str) -> LoopMetrics:
        created = LoopMetrics(controller)
        self._loops = [*(each for each in self._loops if each.controller != controller), created]
        return created

    def text(self) -> bytes:
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        yield from _queues(self._loops)
        yield _histogram(
            "alcove_workqueue_queue_duration_seconds", "Time a key waited in the queue.", self._waited()
        )
        yield _histogram("alcove_workqueue_work_duration_seconds", "Time a reconcile took.", self._worked())
        results = CounterMetricFamily(
            "alcove_controller_reconciles", "Reconciles by result.", labels=("name", "result")
        )
        for loop in self._loops:
            for outcome, count in sorted(loop.outcomes.items()):
                results.add_metric((loop.controller, outcome), count)
        yield results
        yield _deepest(self._loops)
        yield _most_used(self.usage)

    def _waited(self) -> Iterable[tuple[str, Histogram]]:
        return [(loop.controller, loop.waited) for loop in self._loops]

    def _worked(self) -> Iterable[tuple[str, Histogram]]:
        return [(loop.controller, loop.worked) for loop in self._loops]


def _queues(loops: Sequence[LoopMetrics]) -> Iterator[Metric]:
    depth = GaugeMetricFamily("alcove_workqueue_depth", "Keys waiting in the queue.", labels=("name",))
    delayed = GaugeMetricFamily("alcove_workqueue_delayed", "Keys to be enqueued later.", labels=("name",))
    busy = GaugeMetricFamily("alcove_workqueue_busy", "Keys being reconciled.", labels=("name",))
    adds = CounterMetricFamily("alcove_workqueue_adds", "Keys enqueued.", labels=("name",))
    retries = CounterMetricFamily("alcove_workqueue_retries", "Keys retried.", labels=("name",))
    for loop in loops:
        retries.add_metric((loop.controller,), loop.retries)
        if loop.queue is not None:
            depth.add_metric((loop.controller,), loop.queue.depth)
            delayed.add_metric((loop.controller,), loop.queue.delayed)
            busy.add_metric((loop.controller,), loop.queue.processing)
            adds.add_metric((loop.controller,), loop.queue.added)
    yield from (depth, delayed, busy, adds, retries)


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


def _histogram(name: str, documentation: str, values: Iterable[tuple[str, Histogram]]) -> Metric:
    family = HistogramMetricFamily(name, documentation, labels=("name",))
    for controller, histogram in values:
        family.add_metric((controller,), histogram.buckets(), histogram.total)
    return family

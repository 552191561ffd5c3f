"""The scheduler's Prometheus metrics, collected on request."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from alcove.scheduler.core import Scheduler

if TYPE_CHECKING:
    from alcove.scheduler.runner import SchedulerRunner

TENANTS_SHOWN = 10


class SchedulerMetrics(Collector):
    def __init__(self) -> None:
        self._core: Scheduler | None = None
        self._runner: SchedulerRunner | None = None
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)
        ProcessCollector(registry=self._registry)

    def follow(self, core: Scheduler, runner: SchedulerRunner) -> None:
        """Sets the core and runner to report: each term as leader has new ones."""
        self._core, self._runner = core, runner

    def text(self) -> bytes:
        return generate_latest(self._registry)

    def collect(self) -> Iterable[Metric]:
        core, runner = self._core, self._runner
        if core is None or runner is None:
            return
        yield CounterMetricFamily("alcove_scheduler_placed", "Pods bound to nodes.", value=runner.placed)
        yield CounterMetricFamily(
            "alcove_scheduler_turns", "Scheduling turns of tenants.", value=core.fairness.turns
        )
        yield GaugeMetricFamily(
            "alcove_scheduler_pending_pods", "Pending pods in the queue.", value=core.queue.size
        )
        yield GaugeMetricFamily(
            "alcove_scheduler_blocked_cohorts",
            "Cohorts of equal pending pods that are unschedulable.",
            value=len(core.queue.blocked),
        )
        yield GaugeMetricFamily("alcove_scheduler_nodes", "Number of nodes.", value=core.cache.nodes.count)
        yield GaugeMetricFamily(
            "alcove_scheduler_bindings_under_way",
            "Bindings in flight.",
            value=len(core.ledger.flights),
        )
        yield self._shares(core)

    @staticmethod
    def _shares(core: Scheduler) -> Metric:
        """Shares of the TENANTS_SHOWN largest tenants: it bounds the number of series."""
        family = GaugeMetricFamily(
            "alcove_scheduler_dominant_share",
            "Largest fraction of a resource that the tenant uses.",
            labels=["tenant"],
        )
        fairness = core.fairness
        shares = [(fairness.share(account), tenant) for tenant, account in fairness.accounts.items()]
        for share, tenant in sorted(shares, reverse=True)[:TENANTS_SHOWN]:
            family.add_metric([tenant], share)
        return family

"""What a worker of an API server shares with the others (`worker_pool`)."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct
from prometheus_client.metrics_core import Metric

from alcove.apiserver.metrics import ApiServerMetrics
from alcove.apiserver.worker_counts import Counted, WorkerCountsMemory
from alcove.apiserver.worker_metrics import PackedMetric, merge, pack
from alcove.http.group_counts import GroupCounts
from alcove.store.shared_revision import SharedRevision
from alcove.store.worker_channel import WorkerChannel


class WorkerContext(Struct, frozen=True):
    index: int
    port: int
    """At which all workers listen."""
    channel: WorkerChannel
    """To the parent process."""
    revision: SharedRevision
    counts: WorkerCountsMemory

    @property
    def count(self) -> int:
        return self.counts.workers

    def counts_of(self, counted: Counted) -> GroupCounts:
        return self.counts.counts(self.index, counted)

    def share_metrics(self, metrics: ApiServerMetrics) -> None:
        """Makes `metrics` show those of all workers, and gives its own to the others."""

        async def collect() -> list[PackedMetric]:
            return pack(metrics.families())

        async def gather() -> Iterable[Metric]:
            return merge(await self.channel.call("metrics"))

        self.channel.handlers["collect"] = collect
        metrics.gather = gather

"""The metrics of a server that consists of several processes: each process' own, with the label `worker`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from prometheus_client.metrics_core import Metric
from prometheus_client.samples import Sample

LABEL = "worker"

PackedMetric = tuple[str, str, str, list[tuple[str, dict[str, str], float]]]
"""Name, help, type, and samples: the name, labels and value of each."""


def pack(families: Iterable[Metric]) -> list[PackedMetric]:
    """Metrics in a form that can be sent to another process."""
    return [
        (
            family.name,
            family.documentation,
            family.type,
            [(sample.name, dict(sample.labels), float(sample.value)) for sample in family.samples],
        )
        for family in families
    ]


def merge(by_worker: Mapping[str, Sequence[Any]]) -> list[Metric]:
    """The metrics of all workers, each sample with the label of its worker."""
    merged: dict[str, Metric] = {}
    for worker, families in by_worker.items():
        for name, documentation, kind, samples in families:
            metric = merged.get(name)
            if metric is None:
                metric = merged[name] = Metric(name, documentation, kind)
            metric.samples += [
                Sample(sample, {**labels, LABEL: worker}, value) for sample, labels, value in samples
            ]
    return list(merged.values())

"""Topology domains: nodes with the same value of a label. Sums counts per node by domain."""

from __future__ import annotations

import numpy as np

from alcove.scheduler.arrays import Ids, Ints
from alcove.scheduler.label_columns import LabelColumn


def sums(ids: Ids, size: int, counts: Ints) -> Ints:
    """Per domain the sum over its nodes; domain 0, nodes without the label, sums to 0."""
    totals = np.bincount(ids, weights=counts, minlength=size).astype(np.int64)
    totals[0] = 0
    return totals


def by_node(column: LabelColumn | None, counts: Ints) -> Ints:
    """For each node, the sum over all nodes in its domain; 0 for nodes without the label."""
    if column is None:
        return np.zeros_like(counts)
    around: Ints = sums(column.ids, column.size, counts)[column.ids]
    return around

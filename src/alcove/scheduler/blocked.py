"""The blocked cohorts as arrays: finding those that an event may unblock is one array comparison."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from alcove.scheduler.arrays import Bools, Ints
from alcove.scheduler.causes import WakeCause
from alcove.scheduler.cohorts import Cohort
from alcove.scheduler.fairness import TenantShare
from alcove.scheduler.snapshot import NodeSnapshot

_ROWS_MIN = 64
_RESOURCES = 4
"""CPU, memory, storage and pods: the first rows of the snapshot's arrays."""


class Blocked:
    def __init__(self) -> None:
        self._cohorts: list[Cohort | None] = []
        self._free: list[int] = []
        self._causes = np.zeros(0, dtype=np.int64)
        self._accounts = np.zeros(0, dtype=np.int64)
        self._requests: Ints = np.zeros((0, _RESOURCES), dtype=np.int64)
        self._guaranteed: Bools = np.zeros(0, dtype=np.bool_)
        """Whether the tenant had a guaranteed minimum when the cohort was blocked; when that changes, all are
        requeued."""
        self._numbers: dict[TenantShare, int] = {}
        self._last = 0

    def __len__(self) -> int:
        return len(self._cohorts) - len(self._free)

    def add(self, cohort: Cohort, requests: Sequence[tuple[int, int]]) -> None:
        """`wants`: (row, amount) of the resources that one of its pods requests."""
        if not self._free:
            self._grow()
        row = cohort.row = self._free.pop()
        self._cohorts[row] = cohort
        self._causes[row] = cohort.cured_by.value
        self._accounts[row] = self._number(cohort.account)
        self._guaranteed[row] = bool(cohort.account.limits.least)
        self._requests[row] = 0
        for resource, amount in requests:
            if resource < _RESOURCES:
                self._requests[row, resource] = amount

    def _number(self, account: TenantShare) -> int:
        found = self._numbers.get(account)
        if found is None:
            self._last += 1
            found = self._numbers[account] = self._last
        return found

    def remove(self, cohort: Cohort) -> None:
        row, cohort.row = cohort.row, -1
        self._cohorts[row] = None
        self._causes[row] = 0
        self._free.append(row)

    def forget(self, account: TenantShare) -> None:
        """Forgets a tenant that has no blocked cohorts."""
        self._numbers.pop(account, None)

    def _grow(self) -> None:
        old = len(self._cohorts)
        more = max(_ROWS_MIN, old)
        self._cohorts += [None] * more
        self._causes = np.pad(self._causes, (0, more))
        self._accounts = np.pad(self._accounts, (0, more))
        self._guaranteed = np.pad(self._guaranteed, (0, more))
        self._requests = np.pad(self._requests, ((0, more), (0, 0)))
        self._free += range(old + more - 1, old - 1, -1)

    def helped(self, cause: WakeCause, account: TenantShare | None = None) -> list[Cohort]:
        """Cohorts that the event may unblock, of one tenant or of all."""
        return self._chosen(self._concerned(cause, account))

    def fitting(self, nodes: NodeSnapshot, slots: Sequence[int]) -> list[Cohort]:
        """Cohorts that wait for resources and may fit on one of these nodes."""
        waiting = self._concerned(WakeCause.ROOM, None)
        if not waiting.any():
            return []
        fits = np.zeros(len(self._cohorts), dtype=np.bool_)
        for slot in slots:
            free = nodes.allocatable[:_RESOURCES, slot] - nodes.requested[:_RESOURCES, slot]
            fits |= ((self._requests <= free) | (self._requests == 0)).all(axis=1)
        return self._chosen(fits & waiting)

    def within(self, cause: WakeCause, limits: Sequence[tuple[int, int]]) -> list[Cohort]:
        """Cohorts that the event may unblock, and whose pods request no more of each resource than (row, amount).
        Those of tenants with a guaranteed minimum, for which other limits hold, may request more."""
        fits = np.ones(len(self._cohorts), dtype=np.bool_)
        for resource, amount in limits:
            if resource < _RESOURCES:
                requested = self._requests[:, resource]
                fits &= (requested <= amount) | (requested == 0)
        return self._chosen(self._concerned(cause, None) & (fits | self._guaranteed))

    def _concerned(self, cause: WakeCause, account: TenantShare | None) -> Bools:
        concerned: Bools = (self._causes & cause.value) != 0
        if account is not None:
            concerned &= self._accounts == self._numbers.get(account, -1)
        return concerned

    def _chosen(self, rows: Bools) -> list[Cohort]:
        found = (self._cohorts[row] for row in np.flatnonzero(rows).tolist())
        return [cohort for cohort in found if cohort is not None]

    def since(self, before: float) -> list[Cohort]:
        """Cohorts that are blocked since `before` or earlier."""
        return [each for each in self._cohorts if each is not None and each.since <= before]

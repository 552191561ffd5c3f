"""Trials: would the pod fit on a node if some of those there were gone? Two ways to find out.

Where only resources matter, a few additions tell. Otherwise the victims are really taken out of the
world, the filters asked, and all is put back.
"""

from __future__ import annotations

from typing import Protocol

from alcove.scheduler.amounts import PODS
from alcove.scheduler.filters.base import Scope
from alcove.scheduler.filters.node_resources import NodeResourcesFit
from alcove.scheduler.judge import Judge
from alcove.scheduler.pods import Pod
from alcove.scheduler.shapes import Shape
from alcove.scheduler.world import World


class Trial(Protocol):
    def remove(self, victim: Pod) -> None: ...

    def put_back(self, victim: Pod) -> None: ...

    def fits(self) -> bool: ...

    def reasons(self) -> list[str]:
        """Why it does not fit."""
        ...


class ResourceTrial:
    def __init__(self, world: World, pod: Pod, slot: int) -> None:
        nodes = world.nodes
        self._names = tuple(pod.shape.requests.amounts)
        self._asked = tuple(pod.shape.requests.amounts.values())
        rows = [nodes.rows.get(name) for name in self._names]
        self._free = [
            0 if row is None else int(nodes.allocatable[row, slot] - nodes.requested[row, slot])
            for row in rows
        ]

    def remove(self, victim: Pod) -> None:
        given, free = victim.shape.requests.amounts, self._free
        for index, name in enumerate(self._names):
            if name in given:
                free[index] += given[name]

    def put_back(self, victim: Pod) -> None:
        taken, free = victim.shape.requests.amounts, self._free
        for index, name in enumerate(self._names):
            if name in taken:
                free[index] -= taken[name]

    def fits(self) -> bool:
        for free, asked in zip(self._free, self._asked, strict=True):  # noqa: SIM110 - half the time of all()
            if free < asked:
                return False
        return True

    def reasons(self) -> list[str]:
        lacking = [
            name
            for name, free, asked in zip(self._names, self._free, self._asked, strict=True)
            if free < asked
        ]
        return ["Too many pods" if name == PODS else f"Insufficient {name}" for name in lacking]


class WorldTrial:
    """Whoever uses it has to put every victim back."""

    def __init__(self, world: World, judge: Judge, pod: Pod, slot: int) -> None:
        self._world = world
        self._judge = judge
        self._pod = pod
        self._slot = slot
        self._node = world.nodes.name(slot)
        self.questions = 0
        """How often the filters were asked, which is what it costs."""

    def remove(self, victim: Pod) -> None:
        self._world.lift(victim)

    def put_back(self, victim: Pod) -> None:
        self._world.place(victim, self._node)

    def fits(self) -> bool:
        self.questions += 1
        return self._judge.fits(self._pod, self._slot)

    def reasons(self) -> list[str]:
        return self._judge.reasons_at(self._pod, self._slot)


def terms_of(shape: Shape) -> int:
    """How much the shape asks about other pods."""
    return len(shape.affinity.near) + len(shape.affinity.far) + len(shape.spread_hard)


def only_resources_matter(world: World, judge: Judge, pod: Pod) -> bool:
    """Whether, of what depends on other pods, nothing but resources can refuse the pod."""
    return all(
        each.scope is Scope.NODE or isinstance(each, NodeResourcesFit) or not each.applies(world, pod)
        for each in judge.profile(pod).filters
    )

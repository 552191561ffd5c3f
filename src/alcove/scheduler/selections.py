"""Selections: for a choice of pods that somebody asks about, how many of them are on each node."""

from __future__ import annotations

from alcove.api.selectors import EVERYTHING
from alcove.scheduler.groups import PodGroup
from alcove.scheduler.podterms import SelectedPods
from alcove.scheduler.slotcounts import SlotCounts

NamespaceLabels = dict[str, dict[str, str]]


def picks(picked: SelectedPods, group: PodGroup, namespaces: NamespaceLabels) -> bool:
    """Whether the group's pods are among those picked."""
    if picked.owner and picked.owner != group.owner:
        return False
    if not _is_in(picked, group.namespace, namespaces) or not picked.selector.matches(group.labels):
        return False
    return all(picks(other, group, namespaces) for other in picked.also)


def _is_in(picked: SelectedPods, namespace: str, namespaces: NamespaceLabels) -> bool:
    if namespace in picked.namespaces:
        return True
    among = picked.namespace_selector
    if among is None:
        return False
    return among is EVERYTHING or among.matches(namespaces.get(namespace, {}))


class PodSelection:
    """Counts follow the groups it is made of."""

    __slots__ = ("leaving", "nominated", "picked", "placed", "users")

    def __init__(self, picked: SelectedPods) -> None:
        self.picked = picked
        self.placed = SlotCounts()
        self.leaving = SlotCounts()
        self.nominated = SlotCounts()
        self.users = 0
        """How many shapes ask about it."""

    def join(self, group: PodGroup, sign: int = 1) -> None:
        """The group becomes part of it, with all it has (or, with -1, is no longer)."""
        for mine, theirs in (
            (self.placed, group.placed),
            (self.leaving, group.leaving),
            (self.nominated, group.nominated),
        ):
            for slot, count in theirs.items():
                mine.add(slot, sign * count)

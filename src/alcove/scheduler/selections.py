"""Selections: for a set of pods in affinity terms or spread constraints, their number on each node."""

from __future__ import annotations

from alcove.api.selectors import EVERYTHING
from alcove.scheduler.groups import PodGroup
from alcove.scheduler.podterms import SelectedPods
from alcove.scheduler.slotcounts import SlotCounts

NamespaceLabels = dict[str, dict[str, str]]


def picks(picked: SelectedPods, group: PodGroup, namespaces: NamespaceLabels) -> bool:
    """Whether the selection matches the group's pods."""
    if picked.owner and picked.owner != group.owner:
        return False
    if not _is_in(picked, group.namespace, namespaces) or not picked.selector.matches(group.labels):
        return False
    return all(picks(other, group, namespaces) for other in picked.also)


def _is_in(picked: SelectedPods, namespace: str, namespaces: NamespaceLabels) -> bool:
    if namespace in picked.namespaces:
        return True
    namespace_selector = picked.namespace_selector
    if namespace_selector is None:
        return False
    return namespace_selector is EVERYTHING or namespace_selector.matches(namespaces.get(namespace, {}))


class PodSelection:
    """Counts of the matching groups' pods."""

    __slots__ = ("leaving", "nominated", "picked", "placed", "users")

    def __init__(self, picked: SelectedPods) -> None:
        self.picked = picked
        self.placed = SlotCounts()
        self.leaving = SlotCounts()
        self.nominated = SlotCounts()
        self.users = 0
        """Number of shapes that use it."""

    def join(self, group: PodGroup, sign: int = 1) -> None:
        """Adds the group's counts (or, with -1, subtracts them)."""
        for totals, counts in (
            (self.placed, group.placed),
            (self.leaving, group.leaving),
            (self.nominated, group.nominated),
        ):
            for slot, count in counts.items():
                totals.add(slot, sign * count)

"""One tenant's book: its groups, selections and rules, kept consistent as its pods come, move and go.

Nothing in one tenant's book ever depends on another tenant's pods.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct

from alcove.scheduler.affinity_rules import AffinityRule, RuleKey, rules_of
from alcove.scheduler.groups import PodGroup
from alcove.scheduler.pods import SchedulerPod
from alcove.scheduler.podterms import SelectedPods, SpreadConstraint
from alcove.scheduler.selections import NamespaceLabels, PodSelection, picks
from alcove.scheduler.shapes import PodShape

SELECTIONS_MAX = 8192
"""Distinct choices of pods that a tenant's pods may ask about at once: placing a pod stays bounded work."""

GroupKey = tuple[tuple[tuple[str, str], ...], str]
Shelf = tuple[str, ...]
"""Where a selection is kept: by the controller it is about, or the one namespace and a label that its pods
must have there; so that only those that can matter are looked at."""
_ANYWHERE: Shelf = ()


def _shelf(picked: SelectedPods) -> Shelf:
    if picked.owner:
        return ("owner", picked.owner)
    if picked.namespace_selector is None and len(picked.namespaces) == 1 and not picked.also:
        (namespace,) = picked.namespaces
        labels = picked.selector.as_equality()
        return ("label", namespace, *labels[0]) if labels else ("namespace", namespace)
    return _ANYWHERE


def _label_shelves(group: PodGroup) -> list[Shelf]:
    return [("label", group.namespace, *label) for label in group.labels.items()]


def _shelves(group: PodGroup) -> list[Shelf]:
    """Where whatever may pick the group is kept."""
    return [("owner", group.owner), ("namespace", group.namespace), _ANYWHERE, *_label_shelves(group)]


class Links(Struct):
    """What a shape asks about, as kept in the tenant's book."""

    near: tuple[PodSelection, ...]
    """One, of the pods that all terms pick, if there are any terms."""
    far: tuple[PodSelection, ...]
    wishes: tuple[PodSelection, ...]
    spread_hard: tuple[PodSelection, ...]
    spread_soft: tuple[PodSelection, ...]
    rules: tuple[AffinityRule, ...]


_NO_LINKS = Links((), (), (), (), (), ())


class AffinityIndex:
    def __init__(self) -> None:
        self.namespaces: NamespaceLabels = {}
        self._groups: dict[str, dict[GroupKey, PodGroup]] = {}
        """By namespace."""
        self._labeled: dict[Shelf, dict[PodGroup, None]] = {}
        """The shelf of each label → groups that have it."""
        self._selections: dict[Shelf, dict[SelectedPods, PodSelection]] = {}
        self._asked = 0
        """Selections that pods ask for, not counting those of default spreading."""
        self._rules: dict[Shelf, dict[RuleKey, AffinityRule]] = {}
        self._rules_changed = 1
        """Grows whenever a rule may begin or cease to speak of somebody."""

    def group(self, namespace: str, labels: Mapping[str, str], owner: str) -> PodGroup:
        """The group of such pods; `leave` it for every time it was asked for."""
        groups = self._groups.setdefault(namespace, {})
        key = (tuple(sorted(labels.items())), owner)
        found = groups.get(key)
        if found is None:
            found = groups[key] = PodGroup(namespace, dict(labels), owner)
            for shelf in _label_shelves(found):
                self._labeled.setdefault(shelf, {})[found] = None
            found.selections = [
                each for each in self._around(found) if picks(each.picked, found, self.namespaces)
            ]
        found.pods += 1
        return found

    def leave(self, group: PodGroup) -> None:
        group.pods -= 1
        if group.pods == 0:
            groups = self._groups[group.namespace]
            del groups[(tuple(sorted(group.labels.items())), group.owner)]
            if not groups:
                del self._groups[group.namespace]
            for shelf in _label_shelves(group):
                del self._labeled[shelf][group]
                if not self._labeled[shelf]:
                    del self._labeled[shelf]

    def _around(self, group: PodGroup) -> Iterator[PodSelection]:
        """Selections that may pick the group."""
        for shelf in _shelves(group):
            yield from self._selections.get(shelf, {}).values()

    def _every_group(self) -> Iterator[PodGroup]:
        for groups in self._groups.values():
            yield from groups.values()

    def _groups_around(self, picked: SelectedPods) -> Iterator[PodGroup]:
        """Groups that it may pick."""
        shelf = _shelf(picked)
        if shelf[:1] == ("label",):
            yield from self._labeled.get(shelf, ())
            return
        if picked.namespace_selector is not None:
            yield from self._every_group()
            return
        for namespace in picked.namespaces:
            yield from self._groups.get(namespace, {}).values()

    def link(self, shape: PodShape) -> str:
        """Begin to count what the shape asks about. Returns why that cannot be, if it cannot."""
        shape.links = _NO_LINKS
        asked = _asked(shape)
        if not asked:
            return ""
        if self._asked + sum(self._is_new(picked) for picked in asked) > SELECTIONS_MAX:
            return f"the tenant's pods ask about more than {SELECTIONS_MAX} choices of other pods"
        affinity = shape.affinity
        shape.links = Links(
            () if affinity.wanted is None else (self._selection(affinity.wanted),),
            tuple(self._selection(term.picked) for term in affinity.far),
            tuple(self._selection(wish.term.picked) for wish in affinity.preferred),
            self._spread_selections(shape.spread_hard),
            self._spread_selections(shape.spread_soft),
            tuple(self._rule(key) for key in rules_of(shape)),
        )
        return ""

    def unlink(self, shape: PodShape) -> None:
        links: Links = shape.links
        for selection in (*links.near, *links.far, *links.wishes, *links.spread_hard, *links.spread_soft):
            selection.users -= 1
            if selection.users == 0:
                self._end(selection)
        for rule in links.rules:
            rule.users -= 1
            if rule.users == 0:
                self._end_rule(rule)
        shape.links = _NO_LINKS

    def _spread_selections(self, spreads: tuple[SpreadConstraint, ...]) -> tuple[PodSelection, ...]:
        return tuple(self._selection(spread.picked) for spread in spreads)

    def _is_new(self, picked: SelectedPods) -> bool:
        return not picked.owner and picked not in self._selections.get(_shelf(picked), {})

    def _selection(self, picked: SelectedPods) -> PodSelection:
        shelf = self._selections.setdefault(_shelf(picked), {})
        found = shelf.get(picked)
        if found is None:
            found = shelf[picked] = PodSelection(picked)
            self._asked += not picked.owner
            self._fill(found)
        found.users += 1
        return found

    def _fill(self, selection: PodSelection) -> None:
        for group in self._groups_around(selection.picked):
            if picks(selection.picked, group, self.namespaces):
                group.selections.append(selection)
                selection.join(group)

    def _end(self, selection: PodSelection) -> None:
        shelf = _shelf(selection.picked)
        del self._selections[shelf][selection.picked]
        if not self._selections[shelf]:
            del self._selections[shelf]
        self._asked -= not selection.picked.owner
        for group in self._groups_around(selection.picked):
            if selection in group.selections:
                group.selections.remove(selection)

    def _rule(self, key: RuleKey) -> AffinityRule:
        shelf = self._rules.setdefault(_shelf(key.term.picked), {})
        found = shelf.get(key)
        if found is None:
            found = shelf[key] = AffinityRule(key)
            self._rules_changed += 1
        found.users += 1
        return found

    def _end_rule(self, rule: AffinityRule) -> None:
        shelf = _shelf(rule.key.term.picked)
        del self._rules[shelf][rule.key]
        if not self._rules[shelf]:
            del self._rules[shelf]
        self._rules_changed += 1

    def rules_about(self, group: PodGroup) -> list[AffinityRule]:
        """Rules of the tenant's pods that speak of this group's."""
        if group.rules_at != self._rules_changed:
            group.rules = [
                rule
                for shelf in _shelves(group)
                for rule in self._rules.get(shelf, {}).values()
                if picks(rule.key.term.picked, group, self.namespaces)
            ]
            group.rules_at = self._rules_changed
        return group.rules

    def place(self, pod: SchedulerPod, slot: int, sign: int = 1) -> None:
        """The pod is on the node (or, with -1, leaves it)."""
        group = pod.group
        group.placed.add(slot, sign)
        for selection in group.selections:
            selection.placed.add(slot, sign)
        if pod.is_leaving:
            self.mark_leaving(group, slot, sign)
        for rule in pod.shape.links.rules:
            rule.owners.add(slot, sign)

    def mark_leaving(self, group: PodGroup, slot: int, sign: int) -> None:
        group.leaving.add(slot, sign)
        for selection in group.selections:
            selection.leaving.add(slot, sign)

    def nominate(self, pod: SchedulerPod, slot: int, sign: int = 1) -> None:
        group = pod.group
        group.nominated.add(slot, sign)
        for selection in group.selections:
            selection.nominated.add(slot, sign)
        for rule in pod.shape.links.rules:
            rule.coming.add(slot, sign)

    def set_namespace(self, name: str, labels: dict[str, str] | None) -> None:
        """A namespace's labels changed (None: it is gone): who is picked by them is found anew."""
        if self.namespaces.get(name) == labels:
            return
        if labels is None:
            self.namespaces.pop(name, None)
        else:
            self.namespaces[name] = labels
        for selection in list(self._selections.get(_ANYWHERE, {}).values()):
            if _depends_on_labels(selection.picked):
                self._refill(selection)
        self._rules_changed += 1

    def _refill(self, selection: PodSelection) -> None:
        for group in self._every_group():
            if selection in group.selections:
                group.selections.remove(selection)
                selection.join(group, -1)
        self._fill(selection)


def _depends_on_labels(picked: SelectedPods) -> bool:
    among = picked.namespace_selector
    return (among is not None and bool(among.requirements)) or any(map(_depends_on_labels, picked.also))


def _asked(shape: PodShape) -> set[SelectedPods]:
    affinity = shape.affinity
    return {
        *(() if affinity.wanted is None else (affinity.wanted,)),
        *(term.picked for term in affinity.far),
        *(wish.term.picked for wish in affinity.preferred),
        *(spread.picked for spread in (*shape.spread_hard, *shape.spread_soft)),
    }

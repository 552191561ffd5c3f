"""One tenant's affinity index: its groups, selections and rules, kept consistent as its pods change.

A tenant's index never depends on another tenant's pods.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct

from alcove.scheduler.groups import (
    AffinityRule,
    NamespaceLabels,
    PodGroup,
    PodSelection,
    RuleKey,
    picks,
    rules_of,
)
from alcove.scheduler.pods import SchedulerPod
from alcove.scheduler.podterms import SelectedPods, SpreadConstraint
from alcove.scheduler.shapes import PodShape

SELECTIONS_MAX = 8192
"""Distinct selections that a tenant's pods may use at the same time: it bounds the work of placing a pod."""

GroupKey = tuple[tuple[tuple[str, str], ...], str]
IndexKey = tuple[str, ...]
"""Index key of a selection: its controller, or its single namespace and a label that its pods must have
there. Only selections under a group's keys can match the group."""
_ANYWHERE: IndexKey = ()


def _index_key(picked: SelectedPods) -> IndexKey:
    if picked.owner:
        return ("owner", picked.owner)
    if picked.namespace_selector is None and len(picked.namespaces) == 1 and not picked.also:
        (namespace,) = picked.namespaces
        labels = picked.selector.as_equality()
        return ("label", namespace, *labels[0]) if labels else ("namespace", namespace)
    return _ANYWHERE


def _label_keys(group: PodGroup) -> list[IndexKey]:
    return [("label", group.namespace, *label) for label in group.labels.items()]


def _keys(group: PodGroup) -> list[IndexKey]:
    """Keys of all selections and rules that may match the group."""
    return [("owner", group.owner), ("namespace", group.namespace), _ANYWHERE, *_label_keys(group)]


class Links(Struct):
    """A shape's selections and rules in the tenant's index."""

    near: tuple[PodSelection, ...]
    """One selection, of the pods that match all terms. Empty if there are no terms."""
    far: tuple[PodSelection, ...]
    preferred: tuple[PodSelection, ...]
    spread_hard: tuple[PodSelection, ...]
    spread_soft: tuple[PodSelection, ...]
    rules: tuple[AffinityRule, ...]


_NO_LINKS = Links((), (), (), (), (), ())


class AffinityIndex:
    def __init__(self) -> None:
        self.namespaces: NamespaceLabels = {}
        self._groups: dict[str, dict[GroupKey, PodGroup]] = {}
        """Namespace → key → group."""
        self._labeled: dict[IndexKey, dict[PodGroup, None]] = {}
        """Index key of a label → groups that have it."""
        self._selections: dict[IndexKey, dict[SelectedPods, PodSelection]] = {}
        self._selection_count = 0
        """Number of selections, not counting those of default spreading."""
        self._rules: dict[IndexKey, dict[RuleKey, AffinityRule]] = {}
        self._rules_changed = 1
        """Incremented whenever the set of groups that a rule matches may change."""

    def group(self, namespace: str, labels: Mapping[str, str], owner: str) -> PodGroup:
        """The group of such pods. Call `leave` once for each call."""
        groups = self._groups.setdefault(namespace, {})
        key = (tuple(sorted(labels.items())), owner)
        found = groups.get(key)
        if found is None:
            found = groups[key] = PodGroup(namespace, dict(labels), owner)
            for index_key in _label_keys(found):
                self._labeled.setdefault(index_key, {})[found] = None
            found.selections = [
                each for each in self._selections_near(found) if picks(each.picked, found, self.namespaces)
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
            for index_key in _label_keys(group):
                del self._labeled[index_key][group]
                if not self._labeled[index_key]:
                    del self._labeled[index_key]

    def _selections_near(self, group: PodGroup) -> Iterator[PodSelection]:
        """Selections that may pick the group."""
        for index_key in _keys(group):
            yield from self._selections.get(index_key, {}).values()

    def _every_group(self) -> Iterator[PodGroup]:
        for groups in self._groups.values():
            yield from groups.values()

    def _groups_near(self, picked: SelectedPods) -> Iterator[PodGroup]:
        """Groups that the selection may match."""
        index_key = _index_key(picked)
        if index_key[:1] == ("label",):
            yield from self._labeled.get(index_key, ())
            return
        if picked.namespace_selector is not None:
            yield from self._every_group()
            return
        for namespace in picked.namespaces:
            yield from self._groups.get(namespace, {}).values()

    def link(self, shape: PodShape) -> str:
        """Starts counting the shape's selections. Returns an error message if the limit is exceeded, else
        empty."""
        shape.links = _NO_LINKS
        selections = _selections_of(shape)
        if not selections:
            return ""
        if self._selection_count + sum(self._is_new(picked) for picked in selections) > SELECTIONS_MAX:
            return f"the tenant's pods use more than {SELECTIONS_MAX} different selections of other pods"
        affinity = shape.affinity
        shape.links = Links(
            () if affinity.required is None else (self._selection(affinity.required),),
            tuple(self._selection(term.picked) for term in affinity.far),
            tuple(self._selection(preference.term.picked) for preference in affinity.preferred),
            self._spread_selections(shape.spread_hard),
            self._spread_selections(shape.spread_soft),
            tuple(self._rule(key) for key in rules_of(shape)),
        )
        return ""

    def unlink(self, shape: PodShape) -> None:
        links: Links = shape.links
        for selection in (*links.near, *links.far, *links.preferred, *links.spread_hard, *links.spread_soft):
            selection.users -= 1
            if selection.users == 0:
                self._remove(selection)
        for rule in links.rules:
            rule.users -= 1
            if rule.users == 0:
                self._remove_rule(rule)
        shape.links = _NO_LINKS

    def _spread_selections(self, spreads: tuple[SpreadConstraint, ...]) -> tuple[PodSelection, ...]:
        return tuple(self._selection(spread.picked) for spread in spreads)

    def _is_new(self, picked: SelectedPods) -> bool:
        return not picked.owner and picked not in self._selections.get(_index_key(picked), {})

    def _selection(self, picked: SelectedPods) -> PodSelection:
        selections = self._selections.setdefault(_index_key(picked), {})
        found = selections.get(picked)
        if found is None:
            found = selections[picked] = PodSelection(picked)
            self._selection_count += not picked.owner
            self._fill(found)
        found.users += 1
        return found

    def _fill(self, selection: PodSelection) -> None:
        for group in self._groups_near(selection.picked):
            if picks(selection.picked, group, self.namespaces):
                group.selections.append(selection)
                selection.join(group)

    def _remove(self, selection: PodSelection) -> None:
        index_key = _index_key(selection.picked)
        del self._selections[index_key][selection.picked]
        if not self._selections[index_key]:
            del self._selections[index_key]
        self._selection_count -= not selection.picked.owner
        for group in self._groups_near(selection.picked):
            if selection in group.selections:
                group.selections.remove(selection)

    def _rule(self, key: RuleKey) -> AffinityRule:
        rules = self._rules.setdefault(_index_key(key.term.picked), {})
        found = rules.get(key)
        if found is None:
            found = rules[key] = AffinityRule(key)
            self._rules_changed += 1
        found.users += 1
        return found

    def _remove_rule(self, rule: AffinityRule) -> None:
        index_key = _index_key(rule.key.term.picked)
        del self._rules[index_key][rule.key]
        if not self._rules[index_key]:
            del self._rules[index_key]
        self._rules_changed += 1

    def rules_about(self, group: PodGroup) -> list[AffinityRule]:
        """Rules of the tenant's pods that match this group."""
        if group.rules_at != self._rules_changed:
            group.rules = [
                rule
                for index_key in _keys(group)
                for rule in self._rules.get(index_key, {}).values()
                if picks(rule.key.term.picked, group, self.namespaces)
            ]
            group.rules_at = self._rules_changed
        return group.rules

    def place(self, pod: SchedulerPod, slot: int, sign: int = 1) -> None:
        """Counts the pod on the node (or, with -1, removes it)."""
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
        """Updates a namespace's labels (None if it was deleted), and the selections that depend on them."""
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
    namespace_selector = picked.namespace_selector
    return (namespace_selector is not None and bool(namespace_selector.requirements)) or any(
        map(_depends_on_labels, picked.also)
    )


def _selections_of(shape: PodShape) -> set[SelectedPods]:
    affinity = shape.affinity
    return {
        *(() if affinity.required is None else (affinity.required,)),
        *(term.picked for term in affinity.far),
        *(preference.term.picked for preference in affinity.preferred),
        *(spread.picked for spread in (*shape.spread_hard, *shape.spread_soft)),
    }

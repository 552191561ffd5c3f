"""What a pod asks about other pods: affinity terms and spread constraints, read once.

Both speak of pods by selector; only pods of the same tenant are ever meant. Label keys that a term
takes from the pod itself (`matchLabelKeys`) become part of its selector here.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct, structs

from alcove.api import selectors
from alcove.api.objects import Object, get
from alcove.api.selectors import LabelSelector, Operator, Requirement
from alcove.scheduler.bounds import POD_TERMS_MAX, SELECTOR_REQUIREMENTS_MAX, SELECTOR_VALUES_MAX, bound
from alcove.scheduler.nodes import HOSTNAME, ZONE


class SelectedPods(Struct, frozen=True):
    """A choice among a tenant's pods: in these namespaces, or in those that the namespace selector
    takes, with labels that the selector takes; and, if an owner is given, only that controller's."""

    namespaces: frozenset[str]
    namespace_selector: LabelSelector | None
    selector: LabelSelector
    owner: str = ""
    also: "tuple[SelectedPods, ...]" = ()
    """Further choices that have to pick the pod, too."""

    @property
    def is_everything(self) -> bool:
        return self.selector.is_everything and not self.owner


class PodTerm(Struct, frozen=True):
    """Near (or far from) the picked pods, where nodes with the same value of the topology key are near."""

    picked: SelectedPods
    topology_key: str


class WeightedTerm(Struct, frozen=True):
    """A wish: the weight is below zero where it is to be far from them."""

    term: PodTerm
    weight: int


class PodAffinityTerms(Struct, frozen=True):
    near: tuple[PodTerm, ...] = ()
    far: tuple[PodTerm, ...] = ()
    preferred: tuple[WeightedTerm, ...] = ()

    @property
    def wanted(self) -> SelectedPods | None:
        """The pods it must be near: those that all terms pick."""
        if not self.near:
            return None
        first, *others = (term.picked for term in self.near)
        return structs.replace(first, also=tuple(others)) if others else first


class SpreadConstraint(Struct, frozen=True):
    """Picked pods are to be spread evenly over the values of the topology key."""

    picked: SelectedPods
    topology_key: str
    skew_max: int
    domains_least: int = 1
    heeds_node_affinity: bool = True
    heeds_taints: bool = False


NO_TERMS = PodAffinityTerms()
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def read_affinity(affinity: Object, namespace: str, labels: Mapping[str, str]) -> PodAffinityTerms:
    """Raises BadRequest for a selector that makes no sense, TooMuch."""
    near, far = affinity.get("podAffinity") or {}, affinity.get("podAntiAffinity") or {}
    lists: list[Sequence[Any]] = [
        side.get(how) or () for side in (near, far) for how in (_REQUIRED, _PREFERRED)
    ]
    bound("pod affinity has {} terms", sum(map(len, lists)), POD_TERMS_MAX)
    terms = [*lists[0], *lists[2], *(each.get("podAffinityTerm") or {} for each in (*lists[1], *lists[3]))]
    _bound_selectors(each.get(kind) for each in terms for kind in ("labelSelector", "namespaceSelector"))
    wishes = [
        WeightedTerm(
            _term(each.get("podAffinityTerm") or {}, namespace, labels), sign * (each.get("weight") or 0)
        )
        for terms, sign in ((lists[1], 1), (lists[3], -1))
        for each in terms
    ]
    return PodAffinityTerms(
        tuple(_term(each, namespace, labels) for each in lists[0]),
        tuple(_term(each, namespace, labels) for each in lists[2]),
        tuple(wishes),
    )


def _bound_selectors(given: Iterable[Object | None]) -> None:
    requirements = values = 0
    for selector in given:
        expressions = (selector or {}).get("matchExpressions") or ()
        requirements += len((selector or {}).get("matchLabels") or ()) + len(expressions)
        values += sum(len(each.get("values") or ()) for each in expressions)
    bound("pod's label selectors have {} requirements", requirements, SELECTOR_REQUIREMENTS_MAX)
    bound("pod's label selectors have {} values", values, SELECTOR_VALUES_MAX)


def _term(term: Object, namespace: str, labels: Mapping[str, str]) -> PodTerm:
    given = term.get("namespaceSelector")
    names = frozenset(term.get("namespaces") or ())
    if not names and given is None:
        names = frozenset((namespace,))
    among = None if given is None else selectors.from_object(given)
    selector = _with_keys(selectors.from_object(term.get("labelSelector")), term, labels)
    return PodTerm(SelectedPods(names, among, selector), term.get("topologyKey", ""))


def _with_keys(selector: LabelSelector, term: Object, labels: Mapping[str, str]) -> LabelSelector:
    """The selector, and the pod's own values of certain labels (or any other than those)."""
    added = [
        Requirement(key, operator, (labels[key],))
        for field, operator in (("matchLabelKeys", Operator.IN), ("mismatchLabelKeys", Operator.NOT_IN))
        for key in term.get(field) or ()
        if key in labels
    ]
    if not added or selector is selectors.NOTHING:
        return selector
    known = set(selector.requirements)
    return LabelSelector((*selector.requirements, *(each for each in added if each not in known)))


def read_spreads(
    constraints: Sequence[Object], namespace: str, labels: Mapping[str, str]
) -> tuple[tuple[SpreadConstraint, ...], tuple[SpreadConstraint, ...]]:
    """Those that must hold, and those that are wishes. Raises BadRequest, TooMuch."""
    bound("pod has {} topology spread constraints", len(constraints), POD_TERMS_MAX)
    _bound_selectors(each.get("labelSelector") for each in constraints)
    hard: list[SpreadConstraint] = []
    soft: list[SpreadConstraint] = []
    for each in constraints:
        (soft if each.get("whenUnsatisfiable") == "ScheduleAnyway" else hard).append(
            _spread(each, namespace, labels)
        )
    return tuple(hard), tuple(soft)


def _spread(constraint: Object, namespace: str, labels: Mapping[str, str]) -> SpreadConstraint:
    selector = _with_keys(selectors.from_object(constraint.get("labelSelector")), constraint, labels)
    return SpreadConstraint(
        SelectedPods(frozenset((namespace,)), None, selector),
        constraint.get("topologyKey", ""),
        constraint.get("maxSkew") or 1,
        constraint.get("minDomains") or 1,
        (constraint.get("nodeAffinityPolicy") or "Honor") == "Honor",
        (constraint.get("nodeTaintsPolicy") or "Ignore") == "Honor",
    )


def spread_of_controller(namespace: str, owner: str) -> tuple[SpreadConstraint, ...]:
    """What pods of one controller wish where they say nothing: over nodes, and over zones."""
    picked = SelectedPods(frozenset((namespace,)), None, selectors.EVERYTHING, owner)
    return (SpreadConstraint(picked, HOSTNAME, 3), SpreadConstraint(picked, ZONE, 5))


_SPREADING = frozenset(("ReplicaSet", "StatefulSet", "ReplicationController"))


def controller_uid(pod: Object) -> str:
    """The controller whose pods are spread by default; empty if the pod has none such."""
    for owner in get(pod, "metadata", "ownerReferences", default=()):
        if owner.get("controller") and owner.get("kind") in _SPREADING:
            return str(owner.get("uid", ""))
    return ""

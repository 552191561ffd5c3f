"""Affinity terms and spread constraints of a pod, parsed once.

Both select pods, always of the same tenant. Label keys that a term takes from the pod itself
(`matchLabelKeys`) become part of its selector here.
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
    """A set of a tenant's pods: in these namespaces, or in those that match the namespace selector, with
    labels that match the selector; and, if an owner is set, only that controller's pods."""

    namespaces: frozenset[str]
    namespace_selector: LabelSelector | None
    selector: LabelSelector
    owner: str = ""
    also: "tuple[SelectedPods, ...]" = ()
    """Further selections that the pod must match too."""

    @property
    def is_everything(self) -> bool:
        return self.selector.is_everything and not self.owner


class PodTerm(Struct, frozen=True):
    """An affinity (or anti-affinity) term: nodes with the same value of the topology key are near each
    other."""

    picked: SelectedPods
    topology_key: str


class WeightedTerm(Struct, frozen=True):
    """A preferred term; the weight is negative for anti-affinity."""

    term: PodTerm
    weight: int


class PodAffinityTerms(Struct, frozen=True):
    near: tuple[PodTerm, ...] = ()
    far: tuple[PodTerm, ...] = ()
    preferred: tuple[WeightedTerm, ...] = ()

    @property
    def required(self) -> SelectedPods | None:
        """The pods it must be near: those that match all required terms. None if there are no terms."""
        if not self.near:
            return None
        first, *others = (term.picked for term in self.near)
        return structs.replace(first, also=tuple(others)) if others else first


class SpreadConstraint(Struct, frozen=True):
    """Selected pods must be spread evenly over the values of the topology key."""

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
    """Raises BadRequest for an invalid selector, SpecTooLarge."""
    near, far = affinity.get("podAffinity") or {}, affinity.get("podAntiAffinity") or {}
    lists: list[Sequence[Any]] = [
        side.get(how) or () for side in (near, far) for how in (_REQUIRED, _PREFERRED)
    ]
    bound("pod affinity has {} terms", sum(map(len, lists)), POD_TERMS_MAX)
    terms = [*lists[0], *lists[2], *(each.get("podAffinityTerm") or {} for each in (*lists[1], *lists[3]))]
    _bound_selectors(each.get(kind) for each in terms for kind in ("labelSelector", "namespaceSelector"))
    preferred = [
        WeightedTerm(
            _term(each.get("podAffinityTerm") or {}, namespace, labels), sign * (each.get("weight") or 0)
        )
        for terms, sign in ((lists[1], 1), (lists[3], -1))
        for each in terms
    ]
    return PodAffinityTerms(
        tuple(_term(each, namespace, labels) for each in lists[0]),
        tuple(_term(each, namespace, labels) for each in lists[2]),
        tuple(preferred),
    )


def _bound_selectors(raw: Iterable[Object | None]) -> None:
    requirements = values = 0
    for selector in raw:
        expressions = (selector or {}).get("matchExpressions") or ()
        requirements += len((selector or {}).get("matchLabels") or ()) + len(expressions)
        values += sum(len(each.get("values") or ()) for each in expressions)
    bound("pod's label selectors have {} requirements", requirements, SELECTOR_REQUIREMENTS_MAX)
    bound("pod's label selectors have {} values", values, SELECTOR_VALUES_MAX)


def _term(term: Object, namespace: str, labels: Mapping[str, str]) -> PodTerm:
    raw = term.get("namespaceSelector")
    names = frozenset(term.get("namespaces") or ())
    if not names and raw is None:
        names = frozenset((namespace,))
    namespace_selector = None if raw is None else selectors.from_object(raw)
    selector = _with_keys(selectors.from_object(term.get("labelSelector")), term, labels)
    return PodTerm(SelectedPods(names, namespace_selector, selector), term.get("topologyKey", ""))


def _with_keys(selector: LabelSelector, term: Object, labels: Mapping[str, str]) -> LabelSelector:
    """The selector with the pod's own label values added by matchLabelKeys and mismatchLabelKeys."""
    added = [
        Requirement(key, operator, (labels[key],))
        for field, operator in (("matchLabelKeys", Operator.IN), ("mismatchLabelKeys", Operator.NOT_IN))
        for key in term.get(field) or ()
        if key in labels
    ]
    if not added or selector is selectors.NOTHING:
        return selector
    existing = set(selector.requirements)
    return LabelSelector((*selector.requirements, *(each for each in added if each not in existing)))


def read_spreads(
    constraints: Sequence[Object], namespace: str, labels: Mapping[str, str]
) -> tuple[tuple[SpreadConstraint, ...], tuple[SpreadConstraint, ...]]:
    """Required and preferred (ScheduleAnyway) constraints. Raises BadRequest, SpecTooLarge."""
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
    """Default constraints for pods of one controller: preferred spreading over nodes and zones."""
    picked = SelectedPods(frozenset((namespace,)), None, selectors.EVERYTHING, owner)
    return (SpreadConstraint(picked, HOSTNAME, 3), SpreadConstraint(picked, ZONE, 5))


_SPREADING = frozenset(("ReplicaSet", "StatefulSet", "ReplicationController"))


def controller_uid(pod: Object) -> str:
    """Uid of the controller whose pods are spread by default. Empty if the pod has no such controller."""
    for owner in get(pod, "metadata", "ownerReferences", default=()):
        if owner.get("controller") and owner.get("kind") in _SPREADING:
            return str(owner.get("uid", ""))
    return ""

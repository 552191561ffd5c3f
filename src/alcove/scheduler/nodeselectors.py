"""Node selectors (a pod's nodeSelector and node affinity, a volume's affinity): parsed once, matched against
all nodes.

An invalid term matches no node; `fault` says why.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import Struct

from alcove.api.objects import Object
from alcove.scheduler.arrays import Bools, Rows
from alcove.scheduler.label_columns import integer
from alcove.scheduler.snapshot import NodeSnapshot

NAME_FIELD = "metadata.name"


class NodeSelectorRequirement(Struct, frozen=True):
    key: str
    operator: str
    values: tuple[str, ...]
    is_field: bool = False

    @property
    def fault(self) -> str:
        """Why the requirement is invalid. Empty if it is valid."""
        if self.is_field and self.key != NAME_FIELD:
            return f'"{self.key}" is not a valid field label selector key'
        if self.operator in ("Gt", "Lt") and not self.is_field:
            if len(self.values) != 1 or integer(self.values[0]) is None:
                return "for 'Gt', 'Lt' operators, the value must be an integer"
            return ""
        if self.operator in ("In", "NotIn"):
            return "" if self.values else "for 'in', 'notin' operators, values set can't be empty"
        if self.operator in ("Exists", "DoesNotExist") and not self.is_field:
            return "values set must be empty for exists and does not exist" if self.values else ""
        return f'"{self.operator}" is not a valid node selector operator'

    def holds(self, nodes: NodeSnapshot, rows: Rows) -> Bools:
        if self.is_field:
            return self._names(nodes, rows)
        column = nodes.labels.get(self.key)
        absent = self.operator in ("NotIn", "DoesNotExist")
        if column is None:
            return np.full(len(nodes.is_alive[rows]), absent)
        match self.operator:
            case "In":
                return column.is_any_of(self.values, rows)
            case "NotIn":
                return ~column.is_any_of(self.values, rows)
            case "Exists":
                return np.not_equal(column.ids[rows], 0)
            case "DoesNotExist":
                return np.equal(column.ids[rows], 0)
        bound = int(self.values[0])
        if self.operator == "Gt":
            return column.is_number(lambda number: number > bound, rows)
        return column.is_number(lambda number: number < bound, rows)

    def _names(self, nodes: NodeSnapshot, rows: Rows) -> Bools:
        named = np.zeros(nodes.size, dtype=np.bool_)
        named[[slot for name in self.values if (slot := nodes.slot(name)) is not None]] = True
        chosen: Bools = named[rows]
        return chosen if self.operator == "In" else ~chosen


class Term(Struct, frozen=True):
    """Requirements that must all hold. A term without any matches nothing."""

    requirements: tuple[NodeSelectorRequirement, ...]

    @property
    def fault(self) -> str:
        return next((fault for each in self.requirements if (fault := each.fault)), "")

    def matches(self, nodes: NodeSnapshot, rows: Rows) -> Bools:
        if not self.requirements or self.fault:
            return np.zeros(len(nodes.is_alive[rows]), dtype=np.bool_)
        first, *others = self.requirements
        matching = first.holds(nodes, rows)
        for requirement in others:
            matching = matching & requirement.holds(nodes, rows)
        return matching

    @property
    def names(self) -> frozenset[str] | None:
        """The names that a matching node can have. None for any."""
        sets = [
            frozenset(each.values) for each in self.requirements if each.is_field and each.operator == "In"
        ]
        return frozenset.intersection(*sets) if sets else None


class NodeSelector(Struct, frozen=True):
    """Labels that must all match, and terms of which one must match (None for no terms)."""

    labels: tuple[tuple[str, str], ...] = ()
    terms: tuple[Term, ...] | None = None

    def matches(self, nodes: NodeSnapshot, rows: Rows) -> Bools:
        matching = np.ones(len(nodes.is_alive[rows]), dtype=np.bool_)
        for key, value in self.labels:
            matching &= NodeSelectorRequirement(key, "In", (value,)).holds(nodes, rows)
        if self.terms is not None:
            matching &= self._any_term(nodes, rows)
        return matching

    def _any_term(self, nodes: NodeSnapshot, rows: Rows) -> Bools:
        matching = np.zeros(len(nodes.is_alive[rows]), dtype=np.bool_)
        for term in self.terms or ():
            matching |= term.matches(nodes, rows)
        return matching

    @property
    def names(self) -> frozenset[str] | None:
        """The names that matching nodes can have, if every term restricts them. None for any."""
        sets = [term.names for term in self.terms or ()]
        if not sets or any(each is None for each in sets):
            return None
        return frozenset().union(*(each for each in sets if each is not None))

    @property
    def fault(self) -> str:
        """Why no node can match, if all terms are invalid. Empty otherwise."""
        faults = [term.fault for term in self.terms or ()]
        return faults[0] if faults and all(faults) else ""


def read_term(term: Object) -> Term:
    labels = [_requirement(each, False) for each in term.get("matchExpressions") or ()]
    fields = [_requirement(each, True) for each in term.get("matchFields") or ()]
    return Term((*labels, *fields))


def _requirement(raw: Object, is_field: bool) -> NodeSelectorRequirement:
    values = tuple(raw.get("values") or ())
    return NodeSelectorRequirement(raw.get("key", ""), raw.get("operator", ""), values, is_field)


def read_selector(labels: Mapping[str, str], required: Object | None) -> NodeSelector | None:
    """A pod's `nodeSelector` and required node affinity. None if both are missing."""
    if not labels and required is None:
        return None
    terms = None if required is None else read_terms(required.get("nodeSelectorTerms") or ())
    return NodeSelector(tuple(labels.items()), terms)


def read_terms(terms: Sequence[Object]) -> tuple[Term, ...]:
    return tuple(read_term(term) for term in terms)

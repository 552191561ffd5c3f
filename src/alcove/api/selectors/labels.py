"""Label selectors, each compiled to one closure.

`as_equality` returns the labels that must have an exact value, for lookups in an index.
"""

from collections.abc import Iterable, Sequence

from alcove.api import fields
from alcove.api.errors import BadRequest
from alcove.api.objects import Object
from alcove.api.selectors.requirements import Labels, Operator, Requirement, Test, requirement, test_of


def _all(tests: Sequence[Test]) -> Test:
    """Combine all tests into one closure; the common short cases have no loop."""
    match tests:
        case []:
            return lambda labels: True
        case [only]:
            return only
        case [first, second]:
            return lambda labels: first(labels) and second(labels)

    def every(labels: Labels) -> bool:
        for test in tests:  # noqa: SIM110 - a loop takes half the time of all() over a generator
            if not test(labels):
                return False
        return True

    return every


class LabelSelector:
    """Requirements, all of which an object's labels must match. Immutable."""

    __slots__ = ("matches", "requirements")

    def __init__(self, requirements: Iterable[Requirement]) -> None:
        self.requirements = tuple(sorted(requirements, key=lambda required: required.key))
        self.matches: Test = _all([test_of(required) for required in self.requirements])

    @property
    def is_everything(self) -> bool:
        return not self.requirements and self is not NOTHING

    def as_equality(self) -> tuple[tuple[str, str], ...]:
        """Return (key, value) pairs that every match has; the selector may require more."""
        exact = (Operator.EQUALS, Operator.DOUBLE_EQUALS, Operator.IN)
        return tuple(
            (required.key, required.values[0])
            for required in self.requirements
            if required.operator in exact and len(required.values) == 1
        )

    def __str__(self) -> str:
        """Return the canonical query form, which parses back to the same selector. `NOTHING` has none."""
        return ",".join(map(str, self.requirements))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LabelSelector):
            return NotImplemented
        return self is other or (
            self.requirements == other.requirements and NOTHING is not self and NOTHING is not other
        )

    def __hash__(self) -> int:
        return hash(self.requirements)


EVERYTHING = LabelSelector(())
NOTHING = LabelSelector(())
"""The meaning of a missing `LabelSelector` object: it selects no object."""
NOTHING.matches = lambda labels: False


_OBJECT_OPERATORS = {
    "In": Operator.IN,
    "NotIn": Operator.NOT_IN,
    "Exists": Operator.EXISTS,
    "DoesNotExist": Operator.DOES_NOT_EXIST,
}


def from_object(selector: Object | None) -> LabelSelector:
    """Convert a `metav1.LabelSelector`: None selects nothing, an empty one everything. Raises BadRequest."""
    if selector is None:
        return NOTHING
    required = [from_pair(key, value) for key, value in (selector.get("matchLabels") or {}).items()]
    for expression in selector.get("matchExpressions") or ():
        operator = _OBJECT_OPERATORS.get(expression.get("operator", ""))
        if operator is None:
            message = fields.quote(expression.get("operator", ""))
            raise BadRequest(f"{message} is not a valid label selector operator")
        required.append(requirement(expression.get("key", ""), operator, expression.get("values") or ()))
    return LabelSelector(required) if required else EVERYTHING


def from_labels(labels: Labels) -> LabelSelector:
    """Return a selector for equality with every label, as in a ReplicationController or Service."""
    return LabelSelector(from_pair(key, value) for key, value in labels.items())


def from_pair(key: str, value: str) -> Requirement:
    return requirement(key, Operator.EQUALS, (value,))

"""Label and field selectors: parsed once, then asked about every object of a list or watch.

A `LabelSelector` is compiled to one closure, `matches`; `as_equality` tells which labels must have
exactly which value, for whoever keeps an index. Parsing is remembered: clients repeat themselves.
What is wrong with a selector is a `BadRequest` in Kubernetes' words.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from functools import lru_cache

from msgspec import Struct

from alcove.api import fields, names
from alcove.api.errors import BadRequest
from alcove.api.objects import Object

Labels = Mapping[str, str]
Test = Callable[[Labels], bool]

PARSED_SELECTORS_MAX = 4096


class Operator(Enum):
    IN = "in"
    NOT_IN = "notin"
    EQUALS = "="
    DOUBLE_EQUALS = "=="
    NOT_EQUALS = "!="
    GREATER = "gt"
    LESS = "lt"
    EXISTS = "exists"
    DOES_NOT_EXIST = "!"


_SET = (Operator.IN, Operator.NOT_IN)
_ONE = (Operator.EQUALS, Operator.DOUBLE_EQUALS, Operator.NOT_EQUALS)
_NONE = (Operator.EXISTS, Operator.DOES_NOT_EXIST)
_ORDER = (Operator.GREATER, Operator.LESS)


class Requirement(Struct, frozen=True):
    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def __str__(self) -> str:
        match self.operator:
            case Operator.EXISTS:
                return self.key
            case Operator.DOES_NOT_EXIST:
                return f"!{self.key}"
            case Operator.IN | Operator.NOT_IN:
                return f"{self.key} {self.operator.value} ({','.join(sorted(self.values))})"
            case Operator.GREATER:
                return f"{self.key}>{self.values[0]}"
            case Operator.LESS:
                return f"{self.key}<{self.values[0]}"
            case _:
                return f"{self.key}{self.operator.value}{self.values[0]}"


def requirement(key: str, operator: Operator, values: Sequence[str] = ()) -> Requirement:
    """A checked requirement. Raises BadRequest."""
    faults = []
    if wrong := names.label_key(key):
        faults.append(fields.invalid("key", key, "; ".join(wrong)))
    faults += _count_faults(operator, values)
    for index, value in enumerate(values):
        if wrong := names.label_value(value):
            faults.append(fields.invalid(f"values[{index}][{key}]", value, "; ".join(wrong)))
    if faults:
        texts = [str(fault) for fault in faults]
        raise BadRequest(texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]")
    return Requirement(key, operator, tuple(values))


def _count_faults(operator: Operator, values: Sequence[str]) -> list[fields.FieldError]:
    told = ""
    if operator in _SET and not values:
        told = "for 'in', 'notin' operators, values set can't be empty"
    elif operator in _ONE and len(values) != 1:
        told = "exact-match compatibility requires one single value"
    elif operator in _NONE and values:
        told = "values set must be empty for exists and does not exist"
    elif operator in _ORDER and len(values) != 1:
        told = "for 'Gt', 'Lt' operators, exactly one value is required"
    if told:
        return [fields.invalid("values", list(values), told)]
    if operator in _ORDER and _integer(values[0]) is None:
        told = "for 'Gt', 'Lt' operators, the value must be an integer"
        return [fields.invalid("values[0]", values[0], told)]
    return []


_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")


def _integer(text: str) -> int | None:
    """The 64-bit integer that a label's value spells, if it does."""
    if not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None


def _test(required: Requirement) -> Test:
    key, values = required.key, frozenset(required.values)
    one = next(iter(values)) if len(values) == 1 else None
    match required.operator:
        case Operator.EXISTS:
            return lambda labels: key in labels
        case Operator.DOES_NOT_EXIST:
            return lambda labels: key not in labels
        case Operator.GREATER | Operator.LESS:
            return _order_test(key, int(required.values[0]), required.operator is Operator.GREATER)
        case Operator.IN | Operator.EQUALS | Operator.DOUBLE_EQUALS:
            if one is not None:
                return lambda labels: labels.get(key) == one
            return lambda labels: labels.get(key) in values
        case Operator.NOT_IN | Operator.NOT_EQUALS:
            if one is not None:
                return lambda labels: labels.get(key) != one
            return lambda labels: labels.get(key) not in values


def _order_test(key: str, bound: int, greater: bool) -> Test:
    def test(labels: Labels) -> bool:
        value = labels.get(key)
        number = None if value is None else _integer(value)
        if number is None:
            return False
        return number > bound if greater else number < bound

    return test


def _all(tests: Sequence[Test]) -> Test:
    """One closure for all tests; the common short cases without a loop."""
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
    """Requirements, all of which an object's labels must meet. Immutable."""

    __slots__ = ("matches", "requirements")

    def __init__(self, requirements: Iterable[Requirement]) -> None:
        self.requirements = tuple(sorted(requirements, key=lambda required: required.key))
        self.matches: Test = _all([_test(required) for required in self.requirements])

    @property
    def is_everything(self) -> bool:
        return not self.requirements and self is not NOTHING

    def as_equality(self) -> tuple[tuple[str, str], ...]:
        """The (key, value) pairs that every match has; more may be required."""
        exact = (Operator.EQUALS, Operator.DOUBLE_EQUALS, Operator.IN)
        return tuple(
            (required.key, required.values[0])
            for required in self.requirements
            if required.operator in exact and len(required.values) == 1
        )

    def __str__(self) -> str:
        """The canonical query form: parses back to the same selector. `NOTHING` has none."""
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
"""What a missing `LabelSelector` object means: no object at all."""
NOTHING.matches = lambda labels: False


_OBJECT_OPERATORS = {
    "In": Operator.IN,
    "NotIn": Operator.NOT_IN,
    "Exists": Operator.EXISTS,
    "DoesNotExist": Operator.DOES_NOT_EXIST,
}


def from_object(selector: Object | None) -> LabelSelector:
    """A `metav1.LabelSelector`: none selects nothing, an empty one everything. Raises BadRequest."""
    if selector is None:
        return NOTHING
    required = [from_pair(key, value) for key, value in (selector.get("matchLabels") or {}).items()]
    for expression in selector.get("matchExpressions") or ():
        operator = _OBJECT_OPERATORS.get(expression.get("operator", ""))
        if operator is None:
            told = fields.quote(expression.get("operator", ""))
            raise BadRequest(f"{told} is not a valid label selector operator")
        required.append(requirement(expression.get("key", ""), operator, expression.get("values") or ()))
    return LabelSelector(required) if required else EVERYTHING


def from_labels(labels: Labels) -> LabelSelector:
    """Equality with every label given, as a ReplicationController's or Service's selector means it."""
    return LabelSelector(from_pair(key, value) for key, value in labels.items())


def from_pair(key: str, value: str) -> Requirement:
    return requirement(key, Operator.EQUALS, (value,))


@lru_cache(PARSED_SELECTORS_MAX)
def parse(text: str) -> LabelSelector:
    """The query-string form: `a=b,c!=d,e in (x,y),f notin (z),!g,h,i>1`. Raises BadRequest."""
    required = _Parser(text).requirements()
    return LabelSelector(required) if required else EVERYTHING


_SYMBOLS = frozenset(["!=", "==", "!", "=", "<", ">", "(", ")", ","])
_TOKEN = re.compile(r"!=|==|[!=<>(),]|[^ \t\r\n!=<>(),]+")
_END = ""
_BINARY = {
    "in": Operator.IN,
    "notin": Operator.NOT_IN,
    "=": Operator.EQUALS,
    "==": Operator.DOUBLE_EQUALS,
    "!=": Operator.NOT_EQUALS,
    ">": Operator.GREATER,
    "<": Operator.LESS,
}


def _is_word(token: str) -> bool:
    return token != _END and token not in _SYMBOLS


class _Parser:
    """Recursive descent over the tokens; `in` and `notin` are words except where an operator stands."""

    def __init__(self, text: str) -> None:
        self._tokens: list[str] = [*_TOKEN.findall(text), _END]
        self._at = 0

    def _peek(self) -> str:
        return self._tokens[self._at]

    def _take(self) -> str:
        token = self._tokens[self._at]
        self._at += 1
        return token

    def requirements(self) -> list[Requirement]:
        found: list[Requirement] = []
        token = self._peek()
        if token != _END and token != "!" and not _is_word(token):
            raise BadRequest(f"found '{token}', expected: !, identifier, or 'end of string'")
        while self._peek() != _END:
            found.append(self._requirement())
            token = self._take()
            if token == _END:
                break
            if token != ",":
                raise BadRequest(f"found '{token}', expected: ',' or 'end of string'")
            after = self._peek()
            if after != "!" and not _is_word(after):
                raise BadRequest(f"found '{after}', expected: identifier after ','")
        return found

    def _requirement(self) -> Requirement:
        try:
            return self._parsed_requirement()
        except BadRequest as error:
            raise BadRequest(f"unable to parse requirement: {error.message}") from None

    def _parsed_requirement(self) -> Requirement:
        token = self._take()
        negated = token == "!"
        key = self._take() if negated else token
        if not _is_word(key):
            raise BadRequest(f"found '{key}', expected: identifier")
        if wrong := names.label_key(key):
            # Kubernetes prints the missing field path of a bare key like this.
            raise BadRequest(str(fields.invalid("<nil>", key, "; ".join(wrong))))
        if negated or self._peek() in (_END, ","):
            return requirement(key, Operator.DOES_NOT_EXIST if negated else Operator.EXISTS)
        token = self._take()
        operator = _BINARY.get(token)
        if operator is None:
            raise BadRequest(f"found '{token}', expected: in, notin, =, ==, !=, gt, lt")
        values = self._set() if operator in _SET else self._exact()
        return requirement(key, operator, sorted(values))

    def _exact(self) -> set[str]:
        if self._peek() in (_END, ","):
            return {""}
        token = self._take()
        if not _is_word(token):
            raise BadRequest(f"found '{token}', expected: identifier")
        return {token}

    def _set(self) -> set[str]:
        token = self._take()
        if token != "(":
            raise BadRequest(f"found '{token}' expected: '('")
        token = self._peek()
        if token == ")":
            self._take()
            return {""}
        if token != "," and not _is_word(token):
            raise BadRequest(f"found '{token}', expected: ',', ')' or identifier")
        values = self._members()
        self._take()
        return values

    def _members(self) -> set[str]:
        """Words between commas, up to (not including) the closing parenthesis; empty ones count."""
        values: set[str] = set()
        while True:
            token = self._take()
            after = self._peek() if token != _END else _END
            if _is_word(token):
                values.add(token)
                if after not in (",", ")"):
                    raise BadRequest(f"found '{after}', expected: ',' or ')'")
            elif token == ",":
                if not values or after in (",", ")"):
                    values.add("")
            else:
                raise BadRequest(f"found '{token}', expected: ',', or identifier")
            if after == ")":
                return values


class FieldTerm(Struct, frozen=True):
    field: str
    value: str
    equal: bool

    def __str__(self) -> str:
        escaped = re.sub(r"([\\,=])", r"\\\1", self.value)
        return f"{self.field}{'=' if self.equal else '!='}{escaped}"


class FieldSelector:
    """Terms, all of which an object's fields must meet. Immutable."""

    __slots__ = ("fields", "terms")

    def __init__(self, terms: Iterable[FieldTerm]) -> None:
        self.terms = tuple(terms)
        self.fields: tuple[str, ...] = tuple(dict.fromkeys(term.field for term in self.terms))
        """Every field it speaks of: which a kind must support."""

    def matches(self, read: Callable[[str], str]) -> bool:
        """Whether the object whose fields `read` gives is selected; a missing field reads as ""."""
        return all((read(term.field) == term.value) is term.equal for term in self.terms)

    def exact(self, field: str) -> str | None:
        """The value that `field` must have, if the selector says so."""
        return next((term.value for term in self.terms if term.equal and term.field == field), None)

    @property
    def is_everything(self) -> bool:
        return not self.terms

    def __str__(self) -> str:
        return ",".join(map(str, self.terms))

    def __eq__(self, other: object) -> bool:
        return self.terms == other.terms if isinstance(other, FieldSelector) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.terms)


ALL_FIELDS = FieldSelector(())
_FIELD_PART = re.compile(r"((?:\\.|[^\\,])*\\?)(?:,|$)", re.DOTALL)
_FIELD_TERM = re.compile(r"(.*?)(!=|==|=)(.*)", re.DOTALL)


@lru_cache(PARSED_SELECTORS_MAX)
def parse_fields(text: str) -> FieldSelector:
    r"""The query-string form: `a=b,c!=d`, with `\,` `\=` `\\` in values. Raises BadRequest."""
    if not text:
        return ALL_FIELDS
    terms = []
    for part in sorted(filter(None, _FIELD_PART.findall(text))):
        found = _FIELD_TERM.fullmatch(part)
        if found is None:
            raise BadRequest(f"invalid selector: '{text}'; can't understand '{part}'")
        field, operator, value = found.groups()
        terms.append(FieldTerm(field, _unescape(value), operator != "!="))
    return FieldSelector(terms)


def _unescape(value: str) -> str:
    if not any(special in value for special in "\\,="):
        return value
    plain = []
    rest = iter(value)
    for character in rest:
        if character in ",=":
            code = ord(character)
            raise BadRequest(f"invalid field selector: unescaped character in value: {code}")
        if character == "\\":
            character = next(rest, "")
            if character == "" or character not in "\\,=":
                raise BadRequest(f"invalid field selector: invalid escape sequence: \\{character}")
        plain.append(character)
    return "".join(plain)

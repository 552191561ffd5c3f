"""Field selectors in query-string form."""

import re
from collections.abc import Callable, Iterable

from msgspec import Struct

from alcove.api.errors import BadRequest
from alcove.api.short_cache import cache_short

PARSED_SELECTORS_MAX = 4096
TERMS_MAX = 500
"""Each object of a list is tested against all of them."""


class FieldTerm(Struct, frozen=True):
    field: str
    value: str
    equal: bool

    def __str__(self) -> str:
        escaped = re.sub(r"([\\,=])", r"\\\1", self.value)
        return f"{self.field}{'=' if self.equal else '!='}{escaped}"


class FieldSelector:
    """Terms, all of which an object's fields must match. Immutable."""

    __slots__ = ("fields", "terms")

    def __init__(self, terms: Iterable[FieldTerm]) -> None:
        self.terms = tuple(terms)
        self.fields: tuple[str, ...] = tuple(dict.fromkeys(term.field for term in self.terms))
        """Every field that the selector uses; a kind must support all of them."""

    def matches(self, read: Callable[[str], str]) -> bool:
        """Whether the object whose fields `read` returns is selected; a missing field is read as ""."""
        return all((read(term.field) == term.value) is term.equal for term in self.terms)

    def exact(self, field: str) -> str | None:
        """Return the value that `field` must have, if the selector requires one."""
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


@cache_short(PARSED_SELECTORS_MAX)
def parse_fields(text: str) -> FieldSelector:
    r"""Parse the query-string form: `a=b,c!=d`, with `\,` `\=` `\\` in values. Raises BadRequest."""
    if not text:
        return ALL_FIELDS
    terms = []
    parts = sorted(filter(None, _FIELD_PART.findall(text)))
    if len(parts) > TERMS_MAX:
        raise BadRequest(f"a field selector must not have more than {TERMS_MAX} terms")
    for part in parts:
        match = _FIELD_TERM.fullmatch(part)
        if match is None:
            raise BadRequest(f"invalid selector: '{text}'; can't understand '{part}'")
        field, operator, value = match.groups()
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

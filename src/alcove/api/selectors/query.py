"""Label selectors in query-string form. Parsing is cached, because clients repeat the same selectors."""

import re

from alcove.api import fields, names
from alcove.api.errors import BadRequest
from alcove.api.selectors.labels import EVERYTHING, LabelSelector
from alcove.api.selectors.requirements import SET, Operator, Requirement, requirement
from alcove.api.short_cache import cache_short

PARSED_SELECTORS_MAX = 4096
REQUIREMENTS_MAX = 500
"""Each object of a list is tested against all of them."""
COMMAS_MAX = 5_000


@cache_short(PARSED_SELECTORS_MAX)
def parse(text: str) -> LabelSelector:
    """Parse the query-string form: `a=b,c!=d,e in (x,y),f notin (z),!g,h,i>1`. Raises BadRequest."""
    if text.count(",") > COMMAS_MAX:
        raise BadRequest(f"a selector must not have more than {COMMAS_MAX} requirements and values")
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
    """Recursive descent over the tokens; `in` and `notin` are operators only in an operator's position."""

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
        parsed: list[Requirement] = []
        token = self._peek()
        if token != _END and token != "!" and not _is_word(token):
            raise BadRequest(f"found '{token}', expected: !, identifier, or 'end of string'")
        while self._peek() != _END:
            parsed.append(self._requirement())
            if len(parsed) > REQUIREMENTS_MAX:
                raise BadRequest(f"a selector must not have more than {REQUIREMENTS_MAX} requirements")
            token = self._take()
            if token == _END:
                break
            if token != ",":
                raise BadRequest(f"found '{token}', expected: ',' or 'end of string'")
            after = self._peek()
            if after != "!" and not _is_word(after):
                raise BadRequest(f"found '{after}', expected: identifier after ','")
        return parsed

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
        values = self._set() if operator in SET else self._exact()
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
        """Parse comma-separated values up to (not including) the closing parenthesis; empty ones count."""
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

"""Type checking: what is refused before it ever runs, in cel-go's words."""

import pytest

from alcove.api.cel.environment import CelEnvironment
from alcove.api.cel.errors import CompileError
from alcove.api.cel.schema_types import schema_type
from alcove.api.cel.types import BOOL, DYN, INT, STRING, CelType, list_of, map_of, optional_of

SCHEMA = {
    "type": "object",
    "properties": {
        "replicas": {"type": "integer"},
        "name": {"type": "string"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "spec": {"type": "object", "properties": {"on": {"type": "boolean"}}},
        "port": {"x-kubernetes-int-or-string": True},
    },
}
SELF = schema_type(SCHEMA, is_resource=True)
assert SELF is not None
ENVIRONMENT = CelEnvironment({"self": SELF, "any": DYN})


@pytest.mark.parametrize(
    ("source", "column", "message"),
    [
        ("self.nope", 5, "undefined field 'nope'"),
        ("has(self.nope)", 4, "undefined field 'nope'"),
        ("self.spec.nope == 1", 10, "undefined field 'nope'"),
        ("other", 1, "undeclared reference to 'other' (in container '')"),
        ("nope(1)", 5, "undeclared reference to 'nope' (in container '')"),
        ("self.name.nope()", 15, "undeclared reference to 'nope' (in container '')"),
        ("self.name.size", 10, "type 'string' does not support field selection"),
        ("self.replicas + 'a'", 15, "found no matching overload for '_+_' applied to '(int, string)'"),
        ("self.replicas == 'a'", 15, "found no matching overload for '_==_' applied to '(int, string)'"),
        (
            "self.tags == [1]",
            11,
            "found no matching overload for '_==_' applied to '(list(string), list(int))'",
        ),
        ("self.name.matches(1)", 18, "found no matching overload for 'matches' applied to 'string.(int)'"),
        (
            "self.labels[1]",
            12,
            "found no matching overload for '_[_]' applied to '(map(string, string), int)'",
        ),
        ("self.replicas && true", 5, "expected type 'bool' but found 'int'"),
        ("[1, 'a']", 5, "expected type 'int' but found 'string'"),
        ("{'a': 1, 'b': 'c'}", 15, "expected type 'int' but found 'string'"),
        ("self.spec.all(x, true)", 5, "expression of type 'object' cannot be range of a comprehension"),
        ("self.tags.all(x, x + 'a')", 20, "expected type 'bool' but found 'string'"),
        ("self.tags.map(x, x.foo)", 19, "type 'string' does not support field selection"),
        ("true ? 1 : 'a'", 6, "found no matching overload for '_?_:_' applied to '(bool, int, string)'"),
        ("duration('x')", 10, "invalid duration argument"),
        ("timestamp('2020')", 11, "invalid timestamp argument"),
        ("self.name.matches('(')", 19, "invalid matches argument"),
        (
            "self.name.orValue('x')",
            18,
            "found no matching overload for 'orValue' applied to 'string.(string)'",
        ),
        ("self.metadata.labels", 14, "undefined field 'labels'"),
    ],
)
def test_refused(source: str, column: int, message: str) -> None:
    with pytest.raises(CompileError) as caught:
        ENVIRONMENT.compile(source)
    assert str(caught.value).startswith(f"ERROR: <input>:1:{column}: {message}")


def test_every_issue_is_told() -> None:
    with pytest.raises(CompileError) as caught:
        ENVIRONMENT.compile("self.a == 1 && self.b == 2")
    assert [issue.message for issue in caught.value.issues] == ["undefined field 'a'", "undefined field 'b'"]


@pytest.mark.parametrize(
    ("source", "result"),
    [
        ("self.replicas", INT),
        ("self.metadata.name", STRING),
        ("self.tags.map(x, x.size())", list_of(INT)),
        ("self.tags.filter(x, x != '')", list_of(STRING)),
        ("self.labels.transformMap(k, v, v.size())", map_of(STRING, INT)),
        ("self.?name", optional_of(STRING)),
        ("self.?spec.on", optional_of(BOOL)),
        ("self.?spec.on.orValue(true)", BOOL),
        ("[]", list_of(DYN)),
        ("[] + [1]", list_of(INT)),
        ("self.port", DYN),
        ("any.x.y", DYN),
        ("self.port == 80 || self.port == 'http'", BOOL),
        ("1 < 2.0", BOOL),
        ("self.tags[?0]", optional_of(STRING)),
        ("self.tags.first().orValue('')", STRING),
    ],
)
def test_result_types(source: str, result: CelType) -> None:
    assert ENVIRONMENT.compile(source).result == result


def test_format_takes_mixed_types() -> None:
    assert ENVIRONMENT.compile("'%s %d'.format([self.name, self.replicas])").result == STRING


def test_a_variable_hides_a_qualified_function() -> None:
    environment = CelEnvironment({"sets": DYN})
    with pytest.raises(CompileError, match="found no matching overload for 'contains'"):
        environment.compile("sets.contains([1], [1])")
    with pytest.raises(CompileError):
        CelEnvironment({}).compile("[[1]].all(sets, sets.contains([1], [1]))")


def test_comprehension_variables_hide_and_end() -> None:
    environment = CelEnvironment({"x": STRING})
    assert environment.compile("[1].all(x, x + 1 == 2) && x == ''").result == BOOL
    with pytest.raises(CompileError, match="undeclared reference to 'y'"):
        environment.compile("[1].all(y, true) && y == 1")

"""Whatever is written, an expression is refused, fails, or has a value; nothing else happens."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from alcove.api.cel.budget import CostBudget
from alcove.api.cel.environment import CelEnvironment
from alcove.api.cel.errors import CelError, CompileError, OutOfBudget
from alcove.api.cel.library.kubernetes import KUBERNETES
from alcove.api.cel.schema_types import schema_type
from alcove.api.cel.types import DYN

TEXT = {"type": "string"}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "n": {"type": "integer"},
        "f": {"type": "number"},
        "s": TEXT,
        "b": {"type": "boolean"},
        "t": {"type": "string", "format": "date-time"},
        "d": {"type": "string", "format": "duration"},
        "y": {"type": "string", "format": "byte"},
        "l": {"type": "array", "items": {"type": "integer"}},
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": TEXT},
        "m": {"type": "object", "additionalProperties": TEXT},
        "o": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["k"],
            "items": {
                "type": "object",
                "properties": {"k": TEXT, "t": {"type": "string", "format": "date-time"}},
            },
        },
        "p": {"x-kubernetes-int-or-string": True},
    },
}
VALUE: dict[str, Any] = {
    "n": 3,
    "f": 1.5,
    "s": "10.0.0.0/8",
    "b": True,
    "t": "2020-01-01T00:00:00Z",
    "d": "1h",
    "y": "aGk=",
    "l": [1, 2, 3],
    "set": ["a", "b"],
    "m": {"a": "b"},
    "o": [{"k": "x", "t": "2020-01-01T00:00:00Z"}],
    "p": "50%",
    "metadata": {"name": "n"},
}
TYPE = schema_type(SCHEMA, is_resource=True)
assert TYPE is not None
ENVIRONMENT = CelEnvironment({"self": TYPE, "any": DYN})

MEMBERS = sorted(name for name, overloads in KUBERNETES.items() if any(each.member for each in overloads))
GLOBALS = sorted(
    name
    for name, overloads in KUBERNETES.items()
    if name[0].isalpha() and not all(each.member for each in overloads)
)
ATOMS = st.sampled_from(
    [
        "1",
        "-2",
        "3u",
        "1.5",
        "true",
        "null",
        "'a'",
        "'10.0.0.1'",
        "'1Gi'",
        "'1.2.3'",
        "'%s'",
        "'('",
        "b'x'",
        "[]",
        "{}",
        "[1,2]",
        "{'a':1}",
        "x",
        "any",
        "any.l",
        "any.s",
        "int",
        "string",
        "9223372036854775807",
        "'2020-01-01T00:00:00Z'",
        "'1h'",
        "optional.none()",
        "self.o[0]",
        "self.?n",
        "any.?zz",
    ]
    + [f"self.{name}" for name in SCHEMA["properties"]]
)


def combined(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    operators = st.sampled_from(["+", "-", "*", "/", "%", "==", "!=", "<", "<=", ">", ">=", "&&", "||", "in"])
    macros = st.sampled_from(["all", "exists", "exists_one", "map", "filter", "sortBy", "optMap"])
    args = st.lists(inner, max_size=2).map(", ".join)
    return st.one_of(
        st.builds("({} {} {})".format, inner, operators, inner),
        st.builds("({} ? {} : {})".format, inner, inner, inner),
        st.builds("{}.{}({})".format, inner, st.sampled_from(MEMBERS), args),
        st.builds("{}({})".format, st.sampled_from(GLOBALS), args),
        st.builds("{}.{}(x, {})".format, inner, macros, inner),
        st.builds("{}[{}]".format, inner, inner),
        st.builds("has({}.a)".format, inner),
        st.builds("[{}, {}]".format, inner, inner),
    )


@settings(max_examples=15 * settings().max_examples, deadline=None)
@given(st.recursive(ATOMS, combined, max_leaves=8))
def test_well_formed_expressions(source: str) -> None:
    try:
        ENVIRONMENT.compile(source).evaluate((VALUE, VALUE), CostBudget(100_000))
    except (CompileError, CelError, OutOfBudget):
        pass


@settings(max_examples=5 * settings().max_examples, deadline=None)
@given(st.text(alphabet="ab01.?[](){},:'\"`\\+-*/%!=<>&|rbu \n", max_size=40))
def test_any_text(source: str) -> None:
    try:
        ENVIRONMENT.compile(source).evaluate((VALUE, VALUE), CostBudget(100_000))
    except (CompileError, CelError, OutOfBudget):
        pass


def test_map_lists_take_no_items_that_are_not_objects() -> None:
    try:
        ENVIRONMENT.compile("self.o + any.l").evaluate((VALUE, VALUE), CostBudget())
    except CelError as error:
        assert str(error) == "no such overload"
    else:
        raise AssertionError("numbers have no key")

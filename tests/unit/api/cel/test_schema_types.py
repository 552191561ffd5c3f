"""JSON under a schema, as expressions see it: formats, sets, map lists, escaped names."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alcove.api.cel.budget import CostBudget
from alcove.api.cel.environment import CelEnvironment
from alcove.api.cel.errors import CelError
from alcove.api.cel.escaping import escape
from alcove.api.cel.schema_types import schema_type

TEXT = {"type": "string"}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "when": {"type": "string", "format": "date-time"},
        "day": {"type": "string", "format": "date"},
        "span": {"type": "string", "format": "duration"},
        "data": {"type": "string", "format": "byte"},
        "ratio": {"type": "number"},
        "x-y.z/a__b": TEXT,
        "namespace": TEXT,
        "port": {"x-kubernetes-int-or-string": True},
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": TEXT},
        "conditions": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["type"],
            "items": {
                "type": "object",
                "properties": {"type": TEXT, "at": {"type": "string", "format": "date-time"}},
            },
        },
        "list": {"type": "array", "items": TEXT},
        "times": {"type": "array", "items": {"type": "string", "format": "date-time", "nullable": True}},
        "numbers": {"type": "object", "additionalProperties": {"type": "number"}},
        "maybe": {"type": "string", "nullable": True},
        "inner": {
            "type": "object",
            "properties": {"set": {"type": "array", "x-kubernetes-list-type": "set", "items": TEXT}},
        },
        "embedded": {
            "type": "object",
            "x-kubernetes-embedded-resource": True,
            "x-kubernetes-preserve-unknown-fields": True,
        },
        "opaque": {"x-kubernetes-preserve-unknown-fields": True},
    },
}
SELF: dict[str, Any] = {
    "kind": "K",
    "metadata": {"name": "n", "labels": {"a": "b"}},
    "when": "2020-01-01T00:00:00Z",
    "day": "2020-01-01",
    "span": "2 days",
    "data": "aGk=",
    "ratio": 1,
    "x-y.z/a__b": "odd",
    "namespace": "ns",
    "port": 80,
    "set": ["a", "b"],
    "conditions": [{"type": "A", "at": "2020-01-01T00:00:00Z"}, {"type": "B"}],
    "list": ["a", "b"],
    "times": ["2020-01-01T00:00:00Z", None],
    "numbers": {"one": 1},
    "maybe": None,
    "inner": {"set": ["x", "y"]},
    "embedded": {"kind": "Pod", "metadata": {"name": "p"}, "anything": 1},
    "opaque": {"a": 1},
}
OTHER = {
    **SELF,
    "set": ["b", "a"],
    "conditions": SELF["conditions"][::-1],
    "list": ["b", "a"],
    "inner": {"set": ["y", "x"]},
}
TYPE = schema_type(SCHEMA, is_resource=True)
assert TYPE is not None
ENVIRONMENT = CelEnvironment({"self": TYPE, "oldSelf": TYPE})


def evaluate(source: str) -> Any:
    return ENVIRONMENT.compile(source).evaluate((SELF, OTHER), CostBudget())


@pytest.mark.parametrize(
    "source",
    [
        "self.when == timestamp('2020-01-01T00:00:00Z') && self.day == self.when",
        "self.span == duration('48h') && self.data == b'hi' && self.ratio == 1.0 && type(self.ratio) == double",
        "self.x__dash__y__dot__z__slash__a__underscores__b == 'odd' && self.__namespace__ == 'ns'",
        "self.metadata.name == 'n' && self.kind == 'K' && self.embedded.metadata.name == 'p'",
        "type(self.port) == int && self.port < 100",
        "self.set == oldSelf.set && self.conditions == oldSelf.conditions && self.list != oldSelf.list",
        "self.inner == oldSelf.inner",
        "self.set + ['c', 'a'] == ['a', 'b', 'c'] && ['c'] + self.set == ['c', 'a', 'b']",
        "(self.conditions + oldSelf.conditions).size() == 2",
        "self.conditions[0].at == self.when && !has(self.conditions[1].at)",
        "self.conditions.exists(c, c.type == 'B') && self.conditions[0] in oldSelf.conditions",
        "self.times[0] == self.when && self.times.exists(t, t == null)",
        "self.numbers['one'] == 1.0 && self.numbers.all(k, self.numbers[k] < 2.0)",
        "!has(self.maybe)",
        "dyn(self).when == self.when && dyn(self.conditions)[0].at == self.when",
        "self.?maybe.orValue('none') == 'none' && self.?when.hasValue()",
    ],
)
def test_holds(source: str) -> None:
    assert evaluate(source) is True


def test_null_is_absent() -> None:
    with pytest.raises(CelError, match="no such key: maybe"):
        evaluate("self.maybe == ''")


def test_fields_without_a_type_are_hidden() -> None:
    assert TYPE is not None
    assert "opaque" not in TYPE.fields
    assert set(TYPE.fields["embedded"].type.fields) == {"apiVersion", "kind", "metadata"}


def test_the_objects_given_are_never_changed() -> None:
    before = repr((SELF, OTHER))
    evaluate("self == oldSelf || dyn(self) == dyn(oldSelf) || self.set + oldSelf.set == self.set")
    assert repr((SELF, OTHER)) == before


@pytest.mark.parametrize(
    ("name", "spelled"),
    [("a", "a"), ("a_b", "a_b"), ("in", "__in__"), ("1a", None), ("a b", None), ("", None), ("é", None)],
)
def test_escaping(name: str, spelled: str | None) -> None:
    assert escape(name) == spelled


@given(st.from_regex(r"[A-Za-z_./-][A-Za-z0-9_./-]*", fullmatch=True))
def test_escaped_names_are_identifiers(name: str) -> None:
    spelled = escape(name)
    assert spelled is not None
    assert spelled.isidentifier() and spelled.isascii()

"""Values of custom resources: messages as in Kubernetes; unchanged invalid values are accepted on update."""

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alcove.api.schema.error_sink import MISSING, identical
from alcove.api.schema.invariants import embedded_objects, errors_of, unique_lists
from alcove.api.schema.node import SchemaNode, SchemaType
from alcove.api.schema.prune import apply_defaults, prune
from alcove.api.schema.structural import compile_schema
from alcove.api.schema.values import compile_values

TEXT = {"type": "string"}


def messages(part: Any, value: Any) -> list[str]:
    """Faults of `value` under spec.x."""
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"x": part}}}}
    return [str(error) for error in compile_values(schema)({"spec": {"x": value}}, MISSING)]


@pytest.mark.parametrize(
    ("part", "value", "expected"),
    [
        (
            {"type": "integer", "maximum": 10},
            11,
            ["spec.x: Invalid value: 11: spec.x in body should be less than or equal to 10"],
        ),
        (
            {"type": "integer", "maximum": 10, "exclusiveMaximum": True},
            10,
            ["spec.x: Invalid value: 10: spec.x in body should be less than 10"],
        ),
        (
            {"type": "number", "minimum": 0.5},
            0.25,
            ["spec.x: Invalid value: 0.25: spec.x in body should be greater than or equal to 0.5"],
        ),
        (
            {"type": "integer", "minimum": 1},
            0,
            ["spec.x: Invalid value: 0: spec.x in body should be greater than or equal to 1"],
        ),
        (
            {"type": "integer", "multipleOf": 5},
            7,
            ["spec.x: Invalid value: 7: spec.x in body should be a multiple of 5"],
        ),
        ({"type": "number", "multipleOf": 0.1}, 0.3, []),
        (
            {"type": "string", "enum": ["a", "b"]},
            "c",
            ['spec.x: Unsupported value: "c": supported values: "a", "b"'],
        ),
        (
            {"type": "integer", "enum": [1, 2]},
            3,
            ['spec.x: Unsupported value: 3: supported values: "1", "2"'],
        ),
        (
            {"type": "integer"},
            "x",
            ['spec.x: Invalid value: "string": spec.x in body must be of type integer: "string"'],
        ),
        (
            {"type": "string"},
            1,
            ['spec.x: Invalid value: "integer": spec.x in body must be of type string: "integer"'],
        ),
        (
            {"type": "boolean"},
            1,
            ['spec.x: Invalid value: "integer": spec.x in body must be of type boolean: "integer"'],
        ),
        (
            {"type": "integer"},
            True,
            ['spec.x: Invalid value: "boolean": spec.x in body must be of type integer: "boolean"'],
        ),
        (
            {"type": "object"},
            [],
            ['spec.x: Invalid value: "array": spec.x in body must be of type object: "array"'],
        ),
        (
            {"type": "array", "items": TEXT},
            {},
            ['spec.x: Invalid value: "object": spec.x in body must be of type array: "object"'],
        ),
        (
            {"type": "string"},
            None,
            ['spec.x: Invalid value: "null": spec.x in body must be of type string: "null"'],
        ),
        ({"type": "string", "nullable": True}, None, []),
        ({"type": "integer"}, 1.0, []),
        (
            {"type": "integer"},
            1.5,
            ['spec.x: Invalid value: "number": spec.x in body must be of type integer: "number"'],
        ),
        ({"type": "number"}, 1, []),
        ({"x-kubernetes-int-or-string": True}, "50%", []),
        (
            {"x-kubernetes-int-or-string": True},
            1.5,
            ['spec.x: Invalid value: "number": spec.x in body must be of type integer,string: "number"'],
        ),
        (
            {"type": "integer", "format": "int32"},
            2**31,
            ['<nil>: Invalid value: "": Checked value must be of type integer with format int32 in spec.x'],
        ),
        (
            {"type": "integer"},
            2**63,
            ['<nil>: Invalid value: "": Checked value must be of type integer (default format) in spec.x'],
        ),
        ({"type": "string", "maxLength": 2}, "éé", []),
        ({"type": "string", "maxLength": 2}, "abc", ["spec.x: Too long: may not be more than 2 bytes"]),
        (
            {"type": "string", "minLength": 2},
            "é",
            ['spec.x: Invalid value: "é": spec.x in body should be at least 2 chars long'],
        ),
        (
            {"type": "string", "pattern": "^a+$"},
            "b",
            ["spec.x: Invalid value: \"b\": spec.x in body should match '^a+$'"],
        ),
        ({"type": "string", "pattern": "b"}, "abc", []),
        (
            {"type": "string", "format": "date-time"},
            "x",
            ['spec.x: Invalid value: "x": spec.x in body must be of type date-time: "x"'],
        ),
        ({"type": "string", "format": "unheard-of"}, "x", []),
        (
            {"type": "array", "items": TEXT, "minItems": 1},
            [],
            ["spec.x: Invalid value: 0: spec.x in body should have at least 1 items"],
        ),
        (
            {"type": "array", "items": TEXT, "maxItems": 1},
            ["a", "b"],
            ["spec.x: Too many: 2: must have at most 1 items"],
        ),
        (
            {"type": "array", "items": TEXT},
            ["a", 1],
            ['spec.x[1]: Invalid value: "integer": spec.x[1] in body must be of type string: "integer"'],
        ),
        (
            {"type": "object", "additionalProperties": TEXT},
            {"k": 1},
            ['spec.x.k: Invalid value: "integer": spec.x.k in body must be of type string: "integer"'],
        ),
        (
            {"type": "object", "maxProperties": 1, "additionalProperties": TEXT},
            {"a": "", "b": ""},
            ["spec.x: Too many: 2: must have at most 1 items"],
        ),
        (
            {"type": "object", "minProperties": 1},
            {},
            ["spec.x: Invalid value: 0: spec.x in body should have at least 1 properties"],
        ),
        ({"type": "object", "required": ["a"]}, {}, ["spec.x.a: Required value"]),
        (
            {"type": "string", "anyOf": [{"pattern": "^a"}, {"pattern": "^b"}]},
            "c",
            [
                '<nil>: Invalid value: "": "spec.x" must validate at least one schema (anyOf)',
                "spec.x: Invalid value: \"c\": spec.x in body should match '^a'",
            ],
        ),
        (
            {"type": "object", "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
            {},
            [
                '<nil>: Invalid value: "": "spec.x" must validate one and only one schema (oneOf). Found none valid',
                "spec.x.a: Required value",
            ],
        ),
        (
            {"type": "object", "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
            {"a": 1, "b": 1},
            [
                '<nil>: Invalid value: "": "spec.x" must validate one and only one schema (oneOf). Found 2 valid alternatives'
            ],
        ),
        (
            {"type": "integer", "allOf": [{"minimum": 1}, {"maximum": 5}]},
            9,
            [
                "spec.x: Invalid value: 9: spec.x in body should be less than or equal to 5",
                '<nil>: Invalid value: "": "spec.x" must validate all the schemas (allOf)',
            ],
        ),
        (
            {"type": "string", "not": {"pattern": "^bad"}},
            "bad1",
            ['<nil>: Invalid value: "": "spec.x" must not validate the schema (not)'],
        ),
        ({"type": "string", "not": {"pattern": "^bad"}}, "good", []),
        ({"x-kubernetes-preserve-unknown-fields": True}, {"any": [1]}, []),
    ],
)
def test_errors(part: Any, value: Any, expected: list[str]) -> None:
    assert messages(part, value) == expected


def test_causes_carry_reasons() -> None:
    (error,) = compile_values({"type": "object", "properties": {"a": {"type": "integer"}}})(
        {"a": "x"}, MISSING
    )
    assert (error.reason, error.field) == ("FieldValueTypeInvalid", "a")


# Ratcheting.

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "n": {"type": "integer", "maximum": 5},
        "m": {"type": "object", "additionalProperties": {"type": "integer", "maximum": 5}},
        "keyed": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["k"],
            "items": {"type": "object", "properties": {"k": TEXT, "n": {"type": "integer", "maximum": 5}}},
        },
        "plain": {"type": "array", "items": {"type": "integer", "maximum": 5}},
        "flag": {"type": "boolean"},
    },
}


@pytest.mark.parametrize(
    ("new", "old", "errors"),
    [
        ({"n": 9}, {"n": 9}, 0),
        ({"n": 9}, {"n": 8}, 1),
        ({"n": 9}, {}, 1),
        ({"m": {"a": 9, "b": 1}}, {"m": {"a": 9}}, 0),
        ({"m": {"a": 9, "b": 9}}, {"m": {"a": 9}}, 1),
        ({"keyed": [{"k": "b", "n": 1}, {"k": "a", "n": 9}]}, {"keyed": [{"k": "a", "n": 9}]}, 0),
        ({"keyed": [{"k": "a", "n": 8}]}, {"keyed": [{"k": "a", "n": 9}]}, 1),
        ({"plain": [9]}, {"plain": [9]}, 0),
        ({"plain": [9, 1]}, {"plain": [9]}, 1),
        ({"flag": 1}, {"flag": True}, 1),
    ],
)
def test_unchanged_invalid_values_are_accepted_on_update(new: Any, old: Any, errors: int) -> None:
    assert len(compile_values(SCHEMA)(new, old)) == errors


# Invariants.


def test_sets_and_map_lists_hold_nothing_twice() -> None:
    branch = unique_lists(
        {
            "type": "object",
            "properties": {
                "set": {"type": "array", "x-kubernetes-list-type": "set", "items": TEXT},
                "one": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["k"],
                    "items": {"type": "object"},
                },
                "two": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["k", "p"],
                    "items": {"type": "object"},
                },
                "in": {
                    "type": "object",
                    "additionalProperties": {"type": "array", "x-kubernetes-list-type": "set", "items": TEXT},
                },
            },
        }
    )
    obj = {
        "set": ["a", "b", "a", "a"],
        "one": [{"k": "a", "v": 1}, {"k": "a", "v": 2}, {}],
        "two": [{"k": "a", "p": 1}, {"k": "a", "p": 2}, {"p": 1, "k": "a"}],
        "in": {"x": ["a", "a"]},
    }
    assert [str(error) for error in errors_of(branch, obj)] == [
        'set[2]: Duplicate value: "a"',
        'one[1]: Duplicate value: {"k":"a"}',
        'two[2]: Duplicate value: {"k":"a","p":1}',
        'in[x][1]: Duplicate value: "a"',
    ]
    assert unique_lists({"type": "object", "properties": {"a": TEXT}}) is None


def test_embedded_objects_are_whole() -> None:
    branch = embedded_objects(
        {"type": "object", "properties": {"t": {"type": "object", "x-kubernetes-embedded-resource": True}}}
    )
    assert [str(error) for error in errors_of(branch, {"t": {}})] == [
        "t.apiVersion: Required value",
        "t.kind: Required value",
    ]
    whole = {"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": {"a": "b"}}}
    assert errors_of(branch, {"t": whole}) == []
    wrong = {"apiVersion": "a/b/c", "kind": "1x", "metadata": {"labels": {"a": 1}}}
    assert [error.field for error in errors_of(branch, {"t": wrong})] == [
        "t.apiVersion",
        "t.kind",
        "t.metadata",
    ]


# Bounds and laws.


@pytest.mark.parametrize(
    ("part", "value"),
    [
        (
            {"type": "array", "items": {"type": "string", "anyOf": [{"maxLength": -1}] * 5_000}},
            ["x"] * 100_000,
        ),
        (
            {"type": "array", "items": {"type": "object", "required": [f"f{n}" for n in range(20_000)]}},
            [{}] * 20_000,
        ),
    ],
)
def test_alternatives_under_long_lists_are_cut_off(part: Any, value: Any) -> None:
    check = compile_values({"type": "object", "properties": {"x": part}})
    started = time.process_time()
    (error,) = check({"x": value}, MISSING)
    assert "too large for its schema" in error.body
    assert time.process_time() - started < 20


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abcd"), inner, max_size=3),
    max_leaves=12,
)
SCALARS = st.sampled_from(
    [
        TEXT,
        {"type": "integer", "maximum": 3, "default": 1},
        {"type": "boolean", "nullable": True},
        {"x-kubernetes-int-or-string": True},
        {"type": "string", "enum": ["", "a"], "default": "a"},
    ]
)
SCHEMAS = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.builds(lambda part: {"type": "array", "items": part}, inner),
        st.builds(
            lambda parts: {"type": "object", "properties": parts},
            st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
        ),
        st.builds(lambda part: {"type": "object", "additionalProperties": part}, inner),
    ),
    max_leaves=6,
)


@given(SCHEMAS, JSON)
def test_pruned_and_defaulted_objects_stay_as_they_are(part: Any, value: Any) -> None:
    schema = {"type": "object", "properties": {"x": part}}
    node = compile_schema(schema, "K", SchemaNode(SchemaType.OBJECT))
    obj = {"x": value}
    prune(node, obj)
    apply_defaults(node, obj)
    errors = compile_values(schema)(obj, MISSING)
    again = {**obj}
    prune(node, again)
    apply_defaults(node, again)
    assert identical(again, obj)
    assert compile_values(schema)(again, MISSING) == errors


@given(SCHEMAS, JSON)
def test_an_unchanged_object_is_never_refused(part: Any, value: Any) -> None:
    schema = {"type": "object", "properties": {"x": part}}
    assert list(compile_values(schema)({"x": value}, {"x": value})) == []

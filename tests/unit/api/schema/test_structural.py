"""CRD schemas: which are accepted, what the others are told, and what nodes they compile to."""

import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alcove.api.schema.node import ListType, SchemaNode, SchemaType
from alcove.api.schema.openapi3 import schema_faults
from alcove.api.schema.prune import apply_defaults, prune
from alcove.api.schema.rules import compile_rules
from alcove.api.schema.structural import compile_schema
from alcove.api.schema.values import compile_values

META = SchemaNode(SchemaType.OBJECT, "ObjectMeta")
META.properties = {"name": SchemaNode(SchemaType.STRING), "labels": SchemaNode(SchemaType.MAP)}
TEXT = {"type": "string"}


def root(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def told(schema: Any, *, has_status: bool = False) -> list[str]:
    return [str(fault) for fault in schema_faults(schema, "s", META, has_status=has_status)]


@pytest.mark.parametrize(
    "schema",
    [
        root(),
        root(spec={"type": "object", "properties": {"a": TEXT}}, status={"type": "object"}),
        root(spec={"type": "object", "x-kubernetes-preserve-unknown-fields": True}),
        root(spec={"x-kubernetes-preserve-unknown-fields": True}),
        root(port={"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]}),
        root(
            port={
                "x-kubernetes-int-or-string": True,
                "allOf": [{"anyOf": [{"type": "integer"}, {"type": "string"}]}, {"pattern": "^a"}],
            }
        ),
        root(metadata={"type": "object", "properties": {"name": {"type": "string", "maxLength": 8}}}),
        root(
            template={
                "type": "object",
                "x-kubernetes-embedded-resource": True,
                "x-kubernetes-preserve-unknown-fields": True,
            }
        ),
        root(a={"type": "object", "additionalProperties": {"type": "array", "items": TEXT}}),
        root(a={"type": "object", "additionalProperties": True}),
        root(
            a={
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["k", "p"],
                "items": {
                    "type": "object",
                    "required": ["k"],
                    "properties": {"k": TEXT, "p": {"type": "string", "default": "TCP"}},
                },
            }
        ),
        root(a={"type": "object", "default": {"b": 1}, "properties": {"b": {"type": "integer"}}}),
        root(
            spec={
                "type": "object",
                "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
                "properties": {"a": TEXT, "b": TEXT},
            }
        ),
        root(
            a={"type": "integer", "x-kubernetes-validations": [{"rule": "self > 0", "message": "positive"}]}
        ),
    ],
)
def test_accepted(schema: Any) -> None:
    assert told(schema) == []


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({}, ["s.type: Required value: must not be empty at the root"]),
        ({"type": "string"}, ['s.type: Invalid value: "string": must be object at the root']),
        (root(a={}), ["s.properties[a].type: Required value: must not be empty for specified object fields"]),
        (
            root(a={"type": "array", "items": {}}),
            ["s.properties[a].items.type: Required value: must not be empty for specified array items"],
        ),
        (root(a={"type": "array"}), ["s.properties[a].items: Required value: must be specified"]),
        (
            {"type": "object", "additionalProperties": TEXT},
            ["s.additionalProperties: Forbidden: must not be used at the root"],
        ),
        (
            root(a={"type": "object", "anyOf": [{"type": "object", "description": "d", "default": {}}]}),
            [
                "s.properties[a].anyOf[0].description: Forbidden: must be empty to be structural",
                "s.properties[a].anyOf[0].type: Forbidden: must be empty to be structural",
            ],
        ),
        (
            {"type": "object", "allOf": [{"properties": {"x": {"minimum": 1}}}]},
            ["s.properties[x]: Required value: because it is defined in s.allOf[0].properties[x]"],
        ),
        (
            {
                "type": "object",
                "not": {"properties": {"metadata": {}}},
                "properties": {"metadata": {"type": "object"}},
            },
            ["s.not.properties[metadata]: Forbidden: must not be specified in a nested context"],
        ),
        (
            root(kind={"type": "integer"}),
            ['s.properties[kind].type: Invalid value: "integer": must be string'],
        ),
        (
            root(metadata={"type": "object", "properties": {"labels": {"type": "object"}}}),
            [
                "s.properties[metadata]: Forbidden: must not specify anything other than name and generateName, "
                "but metadata is implicitly specified"
            ],
        ),
        (
            root(
                a={
                    "type": "string",
                    "x-kubernetes-embedded-resource": True,
                    "x-kubernetes-preserve-unknown-fields": True,
                }
            ),
            [
                's.properties[a].type: Invalid value: "string": must be object if x-kubernetes-embedded-resource is true'
            ],
        ),
        (
            root(a={"x-kubernetes-int-or-string": True, "x-kubernetes-preserve-unknown-fields": True}),
            [
                "s.properties[a].x-kubernetes-preserve-unknown-fields: Invalid value: true: "
                "must be false if x-kubernetes-int-or-string is true"
            ],
        ),
        (
            root(a={"type": "string", "pattern": "a("}),
            [
                's.properties[a].pattern: Invalid value: "a(": must be a valid regular expression, but isn\'t: '
                "error parsing regexp: missing closing ): `a(`"
            ],
        ),
    ],
)
def test_schemas_that_are_not_structural(schema: Any, expected: list[str]) -> None:
    assert told(schema) == expected


MAP_LIST = {"type": "array", "x-kubernetes-list-type": "map"}


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        ({"type": "null"}, ".type: Forbidden: type cannot be set to null, use nullable as an alternative"),
        (
            {"type": "date"},
            '.type: Unsupported value: "date": supported values: "array", "boolean", "integer", "number", "object", "string"',
        ),
        ({"type": "string", "$ref": "#/x"}, ".$ref: Forbidden: $ref is not supported"),
        (
            {"type": "array", "items": [TEXT]},
            ".items: Forbidden: items must be a schema object and not an array",
        ),
        (
            {"type": "array", "items": TEXT, "uniqueItems": True},
            ".uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
        ),
        (
            {"type": "object", "properties": {"b": TEXT}, "additionalProperties": TEXT},
            ".additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive",
        ),
        (
            {"type": "object", "x-kubernetes-preserve-unknown-fields": False},
            ".x-kubernetes-preserve-unknown-fields: Invalid value: false: must be true or undefined",
        ),
        (
            {"type": "string", "x-kubernetes-map-type": "atomic"},
            '.type: Invalid value: "string": must be object if x-kubernetes-map-type is specified',
        ),
        (
            {"type": "object", "x-kubernetes-map-type": "x"},
            '.x-kubernetes-map-type: Unsupported value: "x": supported values: "atomic", "granular"',
        ),
        (
            {"type": "string", "x-kubernetes-list-type": "set"},
            '.type: Invalid value: "string": must be array if x-kubernetes-list-type is specified',
        ),
        (
            {"type": "array", "items": TEXT, "x-kubernetes-list-map-keys": ["a"]},
            ".x-kubernetes-list-type: Required value: must be map if x-kubernetes-list-map-keys is non-empty",
        ),
        (
            {**MAP_LIST, "items": TEXT, "x-kubernetes-list-map-keys": ["a"]},
            '.items.type: Invalid value: "string": must be object if parent array\'s x-kubernetes-list-type is map',
        ),
        (
            {**MAP_LIST, "items": {"type": "object"}, "x-kubernetes-list-map-keys": ["a"]},
            '.x-kubernetes-list-map-keys: Invalid value: ["a"]: entries must all be names of item properties',
        ),
        (
            {**MAP_LIST, "items": {"type": "object"}},
            ".x-kubernetes-list-map-keys: Required value: must not be empty if x-kubernetes-list-type is map",
        ),
        (
            {
                **MAP_LIST,
                "x-kubernetes-list-map-keys": ["a"],
                "items": {"type": "object", "properties": {"a": TEXT}},
            },
            ".items.properties[a].default: Required value: this property is in x-kubernetes-list-map-keys, "
            "so it must have a default or be a required property",
        ),
        (
            {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string", "nullable": True}},
            ".items.nullable: Forbidden: cannot be nullable when x-kubernetes-list-type is set",
        ),
        (
            {"type": "integer", "default": "x"},
            '.default: Invalid value: "string":  in body must be of type integer: "string"',
        ),
        (
            {"type": "object", "default": {"x": 1}},
            '.default: Invalid value: {"x":1}: must not have unknown fields',
        ),
        (
            {"type": "object", "default": {"n": 11}, "properties": {"n": {"type": "integer", "maximum": 10}}},
            ".default.n: Invalid value: 11: n in body should be less than or equal to 10",
        ),
        (
            {"type": "integer", "default": 0, "x-kubernetes-validations": [{"rule": "self > 0"}]},
            '.default: Invalid value: "integer": failed rule: self > 0',
        ),
        (
            {"type": "array", "items": {"properties": {"b": 5}}},
            ".items.properties[b]: Invalid value: 5: must be a schema",
        ),
        ({"type": "array", "items": {"type": 5}}, ".items.type: Invalid value: 5: must be a string"),
    ],
)
def test_keywords_and_defaults(part: Any, expected: str) -> None:
    assert f"s.properties[a]{expected}" in told(root(a=part))


def test_what_may_stand_at_the_root_with_a_status_subresource() -> None:
    schema = {**root(a=TEXT), "oneOf": [{"required": ["a"]}]}
    assert told(schema) == []
    (fault,) = told(schema, has_status=True)
    assert "fields are allowed at the root of the schema if the status subresource is enabled" in fault
    assert told({**root(), "nullable": True}) == [
        "s.nullable: Forbidden: nullable cannot be true at the root"
    ]
    assert told(root(metadata={"type": "object", "default": {}})) == [
        "s.properties[metadata].default: Forbidden: must not be set in top-level metadata"
    ]


@pytest.mark.parametrize("wrap", ["items", "properties", "additionalProperties", "not", "anyOf"])
def test_schemas_nested_too_deep_are_refused(wrap: str) -> None:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(400):
        match wrap:
            case "properties":
                schema = {"type": "object", "properties": {"a": schema}}
            case "anyOf":
                schema = {"anyOf": [schema]}
            case _:
                schema = {"type": "array" if wrap == "items" else "object", wrap: schema}
    assert "must not be nested in more than 100 schemas" in told(root(a=schema))[0]


# Nodes.


def test_schemas_compile_to_nodes() -> None:
    schema = root(
        spec={
            "type": "object",
            "required": ["size"],
            "properties": {
                "size": {"type": "integer", "default": 3, "description": "how many"},
                "ports": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name"],
                    "items": {"type": "object", "properties": {"name": TEXT}},
                },
                "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": TEXT},
                "labels": {"type": "object", "additionalProperties": TEXT},
                "selector": {"type": "object", "x-kubernetes-map-type": "atomic"},
                "port": {"x-kubernetes-int-or-string": True},
                "any": {"x-kubernetes-preserve-unknown-fields": True},
                "maybe": {"type": "string", "nullable": True},
            },
        }
    )
    node = compile_schema(schema, "Widget", META)
    assert (node.name, node.type) == ("Widget", SchemaType.OBJECT)
    assert node.properties["metadata"] is META
    spec = node.properties["spec"].properties
    assert node.properties["spec"].required == ("size",)
    assert (spec["size"].default, spec["size"].has_default, spec["size"].description) == (3, True, "how many")
    assert (spec["ports"].list_type, spec["ports"].list_map_keys) == (ListType.MAP, ("name",))
    assert spec["tags"].list_type is ListType.SET
    assert spec["labels"].type is SchemaType.MAP
    assert spec["selector"].atomic
    assert spec["port"].type is SchemaType.INT_OR_STRING
    assert spec["any"].type is SchemaType.ANY and spec["any"].preserve_unknown
    assert spec["maybe"].nullable
    assert spec["size"].raw == {"type": "integer", "default": 3, "description": "how many"}


def test_nodes_prune_and_default_custom_resources() -> None:
    schema = root(
        spec={"type": "object", "default": {}, "properties": {"size": {"type": "integer", "default": 3}}},
        template={
            "type": "object",
            "x-kubernetes-embedded-resource": True,
            "properties": {"spec": {"type": "object"}},
        },
        map={"type": "object", "additionalProperties": {"type": "object", "properties": {"a": TEXT}}},
    )
    node = compile_schema(schema, "Widget", META)
    obj: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Widget",
        "metadata": {"name": "n"},
        "extra": 1,
        "template": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "junk": 1},
        "map": {"x": {"a": "b", "c": 1}},
    }
    unknown: list[str] = []
    prune(node, obj, unknown)
    apply_defaults(node, obj)
    assert sorted(unknown) == ["extra", "map.x.c", "template.junk"]
    assert obj["spec"] == {"size": 3}
    assert obj["template"] == {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}


# Hostile and random input.

KEYWORDS = st.sampled_from(
    [
        "type",
        "properties",
        "items",
        "additionalProperties",
        "required",
        "enum",
        "default",
        "nullable",
        "pattern",
        "format",
        "maximum",
        "allOf",
        "anyOf",
        "oneOf",
        "not",
        "x-kubernetes-validations",
        "x-kubernetes-list-type",
        "x-kubernetes-list-map-keys",
        "x-kubernetes-map-type",
        "x-kubernetes-int-or-string",
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-embedded-resource",
        "metadata",
        "rule",
        "message",
        "fieldPath",
        "a",
        "b",
    ]
)
LEAVES: st.SearchStrategy[Any] = st.sampled_from(
    [
        None,
        True,
        False,
        0,
        1.5,
        "",
        "object",
        "array",
        "string",
        "integer",
        "map",
        "set",
        "a",
        "(",
        "self.a > 1",
        [],
        {},
    ]
)
ANYTHING = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYWORDS, inner, max_size=5),
    max_leaves=25,
)


@settings(max_examples=1_000, deadline=None)
@given(ANYTHING)
def test_any_json_is_accepted_or_refused(schema: Any) -> None:
    if told(schema) == []:
        node = compile_schema(schema, "K", META)
        obj: dict[str, Any] = {"metadata": {"name": "n"}, "a": {"b": [1]}, "b": "x"}
        prune(node, obj)
        apply_defaults(node, obj)
        compile_values(schema)(obj, obj)
        compile_rules(schema)


def test_a_large_schema_is_checked_in_reasonable_time() -> None:
    part = {f"f{n}": {"type": "string", "maxLength": 10, "pattern": "^[a-z]+$"} for n in range(100)}
    schema = root(**{f"g{n}": {"type": "object", "properties": part} for n in range(100)})
    started = time.process_time()
    assert told(schema) == []
    compile_schema(schema, "K", META)
    assert time.process_time() - started < 5


def test_defaults_and_rules_at_every_level_of_a_large_schema() -> None:
    """Each level's check must not cost the whole of what is below it."""
    part: dict[str, Any] = {"type": "object", "properties": {f"f{n}": TEXT for n in range(5_000)}}
    for _ in range(80):
        rules = [{"rule": "!has(self.b)", "message": "m"}]
        part = {
            "type": "object",
            "default": {"a": {}},
            "properties": {"a": part, "b": {"type": "string", "format": "date-time"}},
            "x-kubernetes-validations": rules,
        }
    started = time.process_time()
    assert told(root(a=part)) == []
    assert time.process_time() - started < 5

"""CRD schemas: which are accepted, the errors of the others, and what nodes they compile to."""

from typing import Any

import pytest

from alcove.api.schema.node import ListType, SchemaNode, SchemaType
from alcove.api.schema.openapi3 import schema_errors
from alcove.api.schema.prune import apply_defaults, prune
from alcove.api.schema.structural import compile_schema

META = SchemaNode(SchemaType.OBJECT, "ObjectMeta")
META.properties = {"name": SchemaNode(SchemaType.STRING), "labels": SchemaNode(SchemaType.MAP)}
TEXT = {"type": "string"}


def root(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def messages(schema: Any, *, has_status: bool = False) -> list[str]:
    return [str(error) for error in schema_errors(schema, "s", META, has_status=has_status)]


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
    assert messages(schema) == []


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
    assert messages(schema) == expected


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
    assert f"s.properties[a]{expected}" in messages(root(a=part))


def test_what_may_stand_at_the_root_with_a_status_subresource() -> None:
    schema = {**root(a=TEXT), "oneOf": [{"required": ["a"]}]}
    assert messages(schema) == []
    (error,) = messages(schema, has_status=True)
    assert "fields are allowed at the root of the schema if the status subresource is enabled" in error
    assert messages({**root(), "nullable": True}) == [
        "s.nullable: Forbidden: nullable cannot be true at the root"
    ]
    assert messages(root(metadata={"type": "object", "default": {}})) == [
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
    assert "must not be nested in more than 100 schemas" in messages(root(a=schema))[0]


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

"""CRD schemas that are random, large or deep: accepted or refused in bounded time."""

import time
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from alcove.api.schema.node import SchemaNode, SchemaType
from alcove.api.schema.openapi3 import schema_errors
from alcove.api.schema.prune import apply_defaults, prune
from alcove.api.schema.rules import compile_rules
from alcove.api.schema.structural import compile_schema
from alcove.api.schema.values import compile_values

META = SchemaNode(SchemaType.OBJECT, "ObjectMeta")
META.properties = {"name": SchemaNode(SchemaType.STRING), "labels": SchemaNode(SchemaType.MAP)}
TEXT = {"type": "string"}


def root(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def messages(schema: Any, *, has_status: bool = False) -> list[str]:
    return [str(error) for error in schema_errors(schema, "s", META, has_status=has_status)]


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


@settings(max_examples=10 * settings().max_examples, deadline=None)
@given(ANYTHING)
def test_any_json_is_accepted_or_refused(schema: Any) -> None:
    if messages(schema) == []:
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
    assert messages(schema) == []
    compile_schema(schema, "K", META)
    assert time.process_time() - started < 20


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
    assert messages(root(a=part)) == []
    assert time.process_time() - started < 20

"""CEL rules of custom resources: messages, paths, and when they are not evaluated."""

import time
from typing import Any

import pytest

from alcove.api.schema.error_sink import MISSING
from alcove.api.schema.node import SchemaNode, SchemaType
from alcove.api.schema.openapi3 import has_rules, schema_errors
from alcove.api.schema.rules import compile_rules, rule_faults

TEXT = {"type": "string"}
NUMBER = {"type": "integer"}


def spec_with(*rules: dict[str, Any], **properties: Any) -> dict[str, Any]:
    spec = {"type": "object", "properties": properties, "x-kubernetes-validations": list(rules)}
    return {"type": "object", "properties": {"spec": spec}}


def messages(schema: Any, new: Any, old: Any = MISSING) -> list[str]:
    rules = compile_rules(schema)
    assert rules is not None
    return [str(error) for error in rule_faults(rules, new, old)]


def refused(schema: Any) -> list[str]:
    return [
        str(error) for error in schema_errors(schema, "s", SchemaNode(SchemaType.OBJECT), has_status=False)
    ]


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (
            {"rule": "self.n <= self.most"},
            ['spec: Invalid value: "object": failed rule: self.n <= self.most'],
        ),
        (
            {"rule": "self.n <= self.most", "message": " n is too large "},
            ['spec: Invalid value: "object": n is too large'],
        ),
        (
            {
                "rule": "self.n <= self.most",
                "messageExpression": "'%d is more than %d'.format([self.n, self.most])",
            },
            ['spec: Invalid value: "object": 5 is more than 3'],
        ),
        (
            {"rule": "self.n <= self.most", "messageExpression": "self.missing", "message": "fallback"},
            ['spec: Invalid value: "object": fallback'],
        ),
        (
            {"rule": "self.n <= self.most", "messageExpression": "'two\\nlines'", "message": "fallback"},
            ['spec: Invalid value: "object": fallback'],
        ),
        (
            {"rule": "self.n <= self.most", "reason": "FieldValueForbidden", "message": "no"},
            ["spec: Forbidden: no"],
        ),
        (
            {"rule": "self.n <= self.most", "reason": "FieldValueRequired", "message": "no"},
            ["spec: Required value: no"],
        ),
        (
            {"rule": "self.n <= self.most", "reason": "FieldValueDuplicate"},
            ['spec: Duplicate value: "object"'],
        ),
        (
            {"rule": "self.n <= self.most", "fieldPath": ".n", "message": "no"},
            ['spec.n: Invalid value: "object": no'],
        ),
        (
            {"rule": "self.n <= self.most", "fieldPath": ".m['a/b']", "message": "no"},
            ['spec.m[a/b]: Invalid value: "object": no'],
        ),
        (
            {"rule": "self.missing == ''"},
            ["spec: Invalid value: \"object\": no such key: missing evaluating rule: self.missing == ''"],
        ),
        (
            {"rule": "1 / (self.n - 5) > 0", "message": "m"},
            ['spec: Invalid value: "object": division by zero evaluating rule: m'],
        ),
        (
            {"rule": "self.port + 1 > 0"},
            [
                "spec: Invalid value: \"object\": 'no such overload': call arguments did not match a supported operator, "
                "function or macro signature for rule: self.port + 1 > 0"
            ],
        ),
        ({"rule": "self.n > 0"}, []),
    ],
)
def test_messages_of_failed_rules(rule: dict[str, Any], expected: list[str]) -> None:
    schema = spec_with(
        rule,
        n=NUMBER,
        most=NUMBER,
        missing=TEXT,
        port={"x-kubernetes-int-or-string": True},
        m={"type": "object", "additionalProperties": TEXT},
    )
    assert messages(schema, {"spec": {"n": 5, "most": 3, "port": "http"}}) == expected


def test_rules_stand_anywhere() -> None:
    positive = {"type": "integer", "x-kubernetes-validations": [{"rule": "self > 0", "message": "positive!"}]}
    schema = {
        "type": "object",
        "x-kubernetes-validations": [{"rule": "self.metadata.name.startsWith('w')", "message": "name"}],
        "properties": {
            "n": positive,
            "list": {"type": "array", "items": positive},
            "map": {"type": "object", "additionalProperties": positive},
            "when": {
                "type": "string",
                "format": "date-time",
                "x-kubernetes-validations": [
                    {"rule": "self > timestamp('2020-01-01T00:00:00Z')", "message": "late"}
                ],
            },
            "maybe": {**positive, "nullable": True},
        },
    }
    obj = {
        "metadata": {"name": "x"},
        "n": 0,
        "list": [1, 0],
        "map": {"a": 0},
        "when": "2019-01-01T00:00:00Z",
        "maybe": None,
    }
    assert messages(schema, obj) == [
        '<nil>: Invalid value: "object": name',
        'n: Invalid value: "integer": positive!',
        'list[1]: Invalid value: "integer": positive!',
        'map[a]: Invalid value: "integer": positive!',
        'when: Invalid value: "string": late',
    ]


def test_transition_rules_compare_with_what_was_there() -> None:
    schema = spec_with({"rule": "self.n >= oldSelf.n", "message": "may only grow"}, n=NUMBER)
    assert messages(schema, {"spec": {"n": 1}}) == []
    assert messages(schema, {"spec": {"n": 1}}, {}) == []
    assert messages(schema, {"spec": {"n": 2}}, {"spec": {"n": 1}}) == []
    assert messages(schema, {"spec": {"n": 1}}, {"spec": {"n": 2}}) == [
        'spec: Invalid value: "object": may only grow'
    ]


def test_an_optional_old_value_is_asked_of_new_objects_too() -> None:
    rule = {"rule": "oldSelf.hasValue() || self.n == 0", "optionalOldSelf": True, "message": "start at 0"}
    schema = spec_with(rule, n=NUMBER)
    assert messages(schema, {"spec": {"n": 1}}) == ['spec: Invalid value: "object": start at 0']
    assert messages(schema, {"spec": {"n": 1}}, {"spec": {"n": 0}}) == []


def test_items_of_map_lists_are_known_again_by_their_keys() -> None:
    item = {
        "type": "object",
        "required": ["k"],
        "properties": {"k": TEXT, "n": NUMBER},
        "x-kubernetes-validations": [{"rule": "self.n == oldSelf.n", "message": "fixed"}],
    }
    schema = {
        "type": "object",
        "properties": {
            "l": {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["k"],
                "items": item,
            }
        },
    }
    assert refused(schema) == []
    old = {"l": [{"k": "a", "n": 1}, {"k": "b", "n": 2}]}
    assert messages(schema, {"l": [{"k": "b", "n": 2}, {"k": "c", "n": 3}, {"k": "a", "n": 1}]}, old) == []
    assert messages(schema, {"l": [{"k": "b", "n": 9}]}, old) == ['l[0]: Invalid value: "object": fixed']


def test_unchanged_values_are_accepted_on_update_but_not_by_transition_rules() -> None:
    schema = {
        "type": "object",
        "properties": {
            "a": {
                "type": "object",
                "properties": {"n": NUMBER},
                "x-kubernetes-validations": [{"rule": "self.n > 5"}],
            },
            "list": {
                "type": "array",
                "items": {"type": "integer", "x-kubernetes-validations": [{"rule": "self > 5"}]},
            },
            "b": {
                "type": "object",
                "properties": {"n": NUMBER},
                "x-kubernetes-validations": [{"rule": "self.n > oldSelf.n"}],
            },
        },
    }
    old = {"a": {"n": 1}, "list": [1], "b": {"n": 1}}
    assert messages(schema, old, old) == ['b: Invalid value: "object": failed rule: self.n > oldSelf.n']
    changed = {"a": {"n": 2}, "list": [1, 9], "b": {"n": 2}}
    assert [error.partition(":")[0] for error in messages(schema, changed, old)] == ["a", "list[0]"]


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (
            {"rule": "self.nope > 1"},
            'x-kubernetes-validations[0].rule: Invalid value: {"rule":"self.nope > 1"}: compilation failed: '
            "ERROR: <input>:1:5: undefined field 'nope'\n | self.nope > 1\n | ....^",
        ),
        (
            {"rule": "self.n"},
            'x-kubernetes-validations[0].rule: Invalid value: {"rule":"self.n"}: cel expression must evaluate to a bool',
        ),
        ({"rule": " "}, "x-kubernetes-validations[0].rule: Required value: rule is not specified"),
        (
            {"rule": "true", "message": "a\nb"},
            'x-kubernetes-validations[0].message: Invalid value: "a\\nb": must not contain line breaks',
        ),
        (
            {"rule": "true &&\ntrue"},
            "x-kubernetes-validations[0].message: Required value: message must be specified if rule contains line breaks",
        ),
        (
            {"rule": "true", "fieldPath": ".nope"},
            'x-kubernetes-validations[0].fieldPath: Invalid value: ".nope": must be a valid path',
        ),
        (
            {"rule": "true", "reason": "Because"},
            'x-kubernetes-validations[0].reason: Unsupported value: "Because": supported values: "FieldValueDuplicate", '
            '"FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"',
        ),
        (
            {"rule": "true", "messageExpression": "1"},
            'x-kubernetes-validations[0].messageExpression: Invalid value: {"rule":"true","messageExpression":"1"}: '
            "messageExpression must evaluate to a string",
        ),
        (
            {"rule": "self.n > 1", "optionalOldSelf": True},
            "x-kubernetes-validations[0].optionalOldSelf: Invalid value: true: may not be set if oldSelf is not used in rule",
        ),
    ],
)
def test_rules_that_a_definition_may_not_have(rule: dict[str, Any], expected: str) -> None:
    assert refused(spec_with(rule, n=NUMBER)) == [f"s.properties[spec].{expected}"]


def test_old_values_that_cannot_be_found_may_not_be_asked_for() -> None:
    schema = {
        "type": "object",
        "properties": {
            "l": {
                "type": "array",
                "items": {"type": "integer", "x-kubernetes-validations": [{"rule": "self > oldSelf"}]},
            }
        },
    }
    assert refused(schema) == [
        's.properties[l].items.x-kubernetes-validations[0].rule: Invalid value: "self > oldSelf": '
        "oldSelf cannot be used on the uncorrelatable portion of the schema within s.properties[l]"
    ]


def test_a_costly_rule_is_stopped_with_the_message_of_kubernetes() -> None:
    rule = {"rule": "self.l.all(a, self.l.all(b, self.l.all(c, true)))", "message": "slow"}
    schema = spec_with(rule, {"rule": "false"}, l={"type": "array", "items": NUMBER})
    started = time.process_time()
    assert messages(schema, {"spec": {"l": list(range(1_000))}}) == [
        "spec: Invalid value: \"object\": 'operation cancelled: actual cost limit exceeded': "
        "no further validation rules will be run due to call cost exceeds limit for rule: slow"
    ]
    assert time.process_time() - started < 20


def test_many_rules_together_run_out_of_the_objects_budget() -> None:
    costly = {
        "type": "string",
        "x-kubernetes-validations": [
            {"rule": "self.split('').all(a, self.split('').all(b, a != '?' || b != '?'))"}
        ],
    }
    schema = {"type": "object", "properties": {"l": {"type": "array", "items": costly}}}
    started = time.process_time()
    errors = messages(schema, {"l": ["x" * 200] * 10_000})
    assert len(errors) == 1
    assert errors[0].endswith(
        "validation failed due to running out of cost budget, no further validation rules will be run"
    )
    assert time.process_time() - started < 20


def test_too_much_text_in_rules_is_refused_before_it_is_compiled() -> None:
    rules = [{"rule": " || ".join(["self.n > 1"] * 1_000)} for _ in range(10)]
    assert refused(spec_with(*rules, n=NUMBER)) == [
        "s: Forbidden: expressions in x-kubernetes-validations must not have more than 100000 characters together"
    ]


def test_schemas_without_rules_have_none() -> None:
    assert not has_rules({"type": "object", "properties": {"a": TEXT}})
    assert compile_rules({"type": "object", "properties": {"a": TEXT}}) is None

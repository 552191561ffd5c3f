"""Metadata: names, labels, annotations, owners, finalizers, and what may not change."""

from typing import Any

import pytest

from alcove.api import names
from alcove.api.fields import FieldError
from alcove.api.kinds.labelselectors import validate_label_selector
from alcove.api.kinds.metadata import (
    ANNOTATIONS_SIZE_MAX_BYTES,
    validate_annotations,
    validate_metadata,
    validate_metadata_update,
)
from alcove.api.objects import Object


def messages(errors: list[FieldError]) -> list[str]:
    """Faults without the regular expressions at their ends."""
    return [str(error).split(" (e.g.")[0].split(", and must")[0] for error in errors]


def meta(**changes: Any) -> Object:
    base = {"name": "a", "namespace": "n", **changes}
    return {field: value for field, value in base.items() if value is not None}


OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u", "controller": True}
LABEL = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-'"
SUBDOMAIN = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.'"
KEY = "name part must consist of alphanumeric characters, '-', '_' or '.'"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (meta(), []),
        (meta(name=None), ["metadata.name: Required value: name or generateName is required"]),
        (meta(name="A"), [f'metadata.name: Invalid value: "A": {SUBDOMAIN}']),
        (meta(generateName="a-"), []),
        (meta(generateName="-"), [f'metadata.generateName: Invalid value: "-": {SUBDOMAIN}']),
        (meta(namespace=None), ["metadata.namespace: Required value"]),
        (meta(namespace="a.b"), ['metadata.namespace: Invalid value: "a.b": must not contain dots']),
        (meta(namespace="A"), [f'metadata.namespace: Invalid value: "A": {LABEL}']),
        (meta(generation=-1), ["metadata.generation: Invalid value: -1: must be greater than or equal to 0"]),
        (meta(labels={"a b": "c"}), [f'metadata.labels: Invalid value: "a b": {KEY}']),
        (
            meta(labels={"a": "b c"}),
            [
                'metadata.labels: Invalid value: "b c": a valid label must be an empty string or consist of '
                "alphanumeric characters, '-', '_' or '.'"
            ],
        ),
        (meta(annotations={"A.B/C": "any thing"}), []),
        (meta(annotations={"a b": ""}), [f'metadata.annotations: Invalid value: "a b": {KEY}']),
        (meta(finalizers=["a.b/c", "orphan"]), []),
        (meta(finalizers=["a b"]), [f'metadata.finalizers: Invalid value: "a b": {KEY}']),
        (
            meta(finalizers=["orphan", "foregroundDeletion"]),
            [
                'metadata.finalizers: Invalid value: ["orphan","foregroundDeletion"]: '
                "finalizer orphan and foregroundDeletion cannot be both set"
            ],
        ),
        (meta(ownerReferences=[OWNER]), []),
        (
            meta(ownerReferences=[{"apiVersion": "", "kind": "", "name": "", "uid": ""}]),
            [
                "metadata.ownerReferences[0].apiVersion: Required value: must not be empty",
                "metadata.ownerReferences[0].kind: Required value: must not be empty",
                "metadata.ownerReferences[0].name: Required value: must not be empty",
                "metadata.ownerReferences[0].uid: Required value: must not be empty",
            ],
        ),
        (
            meta(ownerReferences=[{**OWNER, "apiVersion": "a/b/c"}]),
            [
                'metadata.ownerReferences[0].apiVersion: Invalid value: "a/b/c": '
                "must be <group>/<version> or <version>"
            ],
        ),
        (
            meta(managedFields=[{"operation": "Replace", "fieldsType": "X", "manager": "m\n"}]),
            [
                'metadata.managedFields[0].operation: Invalid value: "Replace": must be `Apply` or `Update`',
                'metadata.managedFields[0].fieldsType: Invalid value: "X": must be `FieldsV1`',
                'metadata.managedFields[0].manager: Invalid value: "m\\n": invalid character U+000A (at position 1)',
            ],
        ),
        (
            meta(managedFields=[{"operation": "Apply", "manager": "m" * 129}]),
            ["metadata.managedFields[0].manager: Too long: may not be more than 128 bytes"],
        ),
    ],
)
def test_metadata(given: Object, expected: list[str]) -> None:
    assert messages(validate_metadata(given, True, None)) == expected


def test_two_controllers() -> None:
    errors = validate_metadata(meta(ownerReferences=[OWNER, {**OWNER, "name": "s"}]), True)
    assert [(error.field, error.body.rpartition("]: ")[2]) for error in errors] == [
        (
            "metadata.ownerReferences",
            "Only one reference can have Controller set to true. "
            'Found "true" in references for ReplicaSet/r and ReplicaSet/s',
        )
    ]


def test_events_own_nothing() -> None:
    errors = validate_metadata(
        meta(ownerReferences=[{"apiVersion": "v1", "kind": "Event", "name": "e", "uid": "u"}]), True
    )
    assert str(errors[0]).endswith("/v1, Kind=Event is disallowed from being an owner")


def test_kinds_without_namespaces_refuse_one() -> None:
    assert messages(validate_metadata(meta(), False)) == [
        "metadata.namespace: Forbidden: not allowed on this type"
    ]
    assert messages(validate_metadata(meta(namespace=None), False)) == []


def test_a_kind_brings_its_own_rule_for_names_and_its_path() -> None:
    errors = validate_metadata(meta(name="a.b"), True, names.name_is_dns_label, "spec.template.metadata")
    assert messages(errors) == ['spec.template.metadata.name: Invalid value: "a.b": must not contain dots']


def test_annotations_are_bounded_in_bytes() -> None:
    fits = {"a": "x" * (ANNOTATIONS_SIZE_MAX_BYTES - 1)}
    assert validate_annotations(fits, "f") == []
    assert messages(validate_annotations({**fits, "b": ""}, "f")) == [
        "f: Too long: may not be more than 262144 bytes"
    ]
    assert messages(validate_annotations({"a": "é" * (ANNOTATIONS_SIZE_MAX_BYTES // 2)}, "f")) == [
        "f: Too long: may not be more than 262144 bytes"
    ]
    assert validate_annotations({"a": "é" * (ANNOTATIONS_SIZE_MAX_BYTES // 2 - 1)}, "f") == []


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, []),
        ({"labels": {"x": "y"}}, []),
        ({"name": "b"}, ['metadata.name: Invalid value: "b": field is immutable']),
        ({"namespace": "m"}, ['metadata.namespace: Invalid value: "m": field is immutable']),
        ({"tenant": "other"}, ['metadata.tenant: Invalid value: "other": field is immutable']),
        ({"uid": "v"}, ['metadata.uid: Invalid value: "v": field is immutable']),
        (
            {"creationTimestamp": "t2"},
            ['metadata.creationTimestamp: Invalid value: "t2": field is immutable'],
        ),
        ({"deletionTimestamp": "t"}, ['metadata.deletionTimestamp: Invalid value: "t": field is immutable']),
        (
            {"deletionGracePeriodSeconds": 5},
            ["metadata.deletionGracePeriodSeconds: Invalid value: 5: field is immutable"],
        ),
        ({"generation": 1}, ["metadata.generation: Invalid value: 1: must not be decremented"]),
    ],
)
def test_update(changes: Object, expected: list[str]) -> None:
    old = meta(uid="u", tenant="t", creationTimestamp="t1", generation=2)
    assert messages(validate_metadata_update({**old, **changes}, old)) == expected


def test_no_finalizers_are_added_to_what_is_being_deleted() -> None:
    old = meta(deletionTimestamp="t", finalizers=["a.b/c"])
    assert messages(validate_metadata_update({**old, "finalizers": ["a.b/c", "x.y/z"]}, old)) == [
        "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, "
        'found new finalizers []string{"x.y/z"}'
    ]
    assert validate_metadata_update({**old, "finalizers": []}, old) == []


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        (None, []),
        ({}, []),
        ({"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "k", "operator": "Exists"}]}, []),
        ({"matchLabels": {"a b": "c"}}, [f's.matchLabels: Invalid value: "a b": {KEY}']),
        (
            {"matchExpressions": [{"key": "k", "operator": "In"}]},
            [
                "s.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'"
            ],
        ),
        (
            {"matchExpressions": [{"key": "k", "operator": "Exists", "values": ["v"]}]},
            [
                "s.matchExpressions[0].values: Forbidden: "
                "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            ],
        ),
        (
            {"matchExpressions": [{"key": "k", "operator": "Gt", "values": ["v"]}]},
            ['s.matchExpressions[0].operator: Invalid value: "Gt": not a valid selector operator'],
        ),
        (
            {"matchExpressions": [{"key": "", "operator": "NotIn", "values": ["a b"]}]},
            [
                's.matchExpressions[0].key: Invalid value: "": name part must be non-empty',
                f's.matchExpressions[0].key: Invalid value: "": {KEY}',
                's.matchExpressions[0].values[0]: Invalid value: "a b": a valid label must be an empty string or '
                "consist of alphanumeric characters, '-', '_' or '.'",
            ],
        ),
    ],
)
def test_label_selector(selector: Object | None, expected: list[str]) -> None:
    assert messages(validate_label_selector(selector, "s")) == expected

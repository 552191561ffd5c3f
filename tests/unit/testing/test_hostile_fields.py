"""Hostile values are put where they belong: what the tests of attacks send is what they say."""

from __future__ import annotations

import pytest

from alcove.api import registry
from alcove.api.objects import Object
from alcove.testing.hostile_fields import KEY_ITSELF, FieldPath, placed, string_fields

BASE: Object = {"metadata": {"name": "x"}, "spec": {"containers": [{"name": "a"}, {"name": "b"}]}}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (("metadata", "name"), {"metadata": {"name": "!"}, "spec": BASE["spec"]}),
        (
            ("spec", "containers", 1, "image"),
            {
                "metadata": {"name": "x"},
                "spec": {"containers": [{"name": "a"}, {"name": "b", "image": "!"}]},
            },
        ),
        (
            ("spec", "containers", 0, "command", 0),
            {
                "metadata": {"name": "x"},
                "spec": {"containers": [{"name": "a", "command": ["!"]}, {"name": "b"}]},
            },
        ),
        (
            ("metadata", "labels", "k"),
            {"metadata": {"name": "x", "labels": {"k": "!"}}, "spec": BASE["spec"]},
        ),
    ],
)
def test_a_value_is_put_at_its_path_and_nothing_else_changes(path: FieldPath, expected: Object) -> None:
    assert placed(BASE, path, "!") == expected


def test_a_hostile_key_is_put_into_the_map() -> None:
    made = placed(BASE, ("metadata", "labels", KEY_ITSELF), "!")
    assert list(made["metadata"]["labels"]) == ["!"]


def test_every_string_of_a_pod_is_found_once() -> None:
    kind = registry.load().find("", "v1", "pods")
    assert kind is not None
    paths = string_fields(kind.schema, BASE)
    assert len(paths) == len(set(paths))
    for path in (
        ("spec", "containers", 1, "name"),
        ("spec", "containers", 0, "volumeMounts", 0, "subPath"),
        ("spec", "volumes", 0, "configMap", "items", 0, "path"),
        ("status", "containerStatuses", 0, "containerID"),
        ("metadata", "annotations", KEY_ITSELF),
    ):
        assert path in paths

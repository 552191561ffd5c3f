"""What apply refuses: unknown fields, wrong types, items without or with the same keys."""

from typing import Any

import pytest

from alcove.api.patch.apply import check
from alcove.api.schema.node import SchemaNode, SchemaType


@pytest.mark.parametrize(
    ("config", "errors"),
    [
        ({"text": "x", "number": 1.5, "free": {"any": "thing"}, "any": [{"a": None}]}, []),
        ({"text": None, "pair": None, "set": None, "items": []}, []),
        ({"unheard": 1}, [".unheard: field not declared in schema"]),
        (
            {"pair": {"x": 1, "deep": {"y": 1}}},
            [".pair.x: field not declared in schema", ".pair.deep.y: field not declared in schema"],
        ),
        ({"text": 1}, [".text: expected string, got number"]),
        ({"number": "1"}, [".number: expected numeric (int or float), got string"]),
        ({"number": True}, [".number: expected numeric (int or float), got boolean"]),
        ({"pair": []}, [".pair: expected map, got array"]),
        ({"set": {}}, [".set: expected list, got object"]),
        ({"free": {"a": 1}}, [".free.a: expected string, got number"]),
        ({"atomicList": ["a", 1]}, [".atomicList[1]: expected string, got number"]),
        ({"set": ["a", "a"]}, ['.set: duplicate entries for key [="a"]']),
        ({"items": [{"name": "a"}, {"name": "a"}]}, ['.items: duplicate entries for key [name="a"]']),
        (
            {"items": [{"name": "a", "ports": [{"port": 1}, {"port": 1, "protocol": "TCP"}]}]},
            ['.items[name="a"].ports: duplicate entries for key [port=1,protocol="TCP"]'],
        ),
        ({"items": [{"name": "a", "ports": [{"port": 1}, {"port": 1, "protocol": "UDP"}]}]}, []),
        (
            {"items": [{"value": "x"}]},
            [
                '.items: element 0: associative list with keys has an element that omits all key fields ["name"] '
                "(and doesn't have default values for any key fields)"
            ],
        ),
        (
            {"items": [None]},
            [".items: element 0: the items of an associative list with keys must be objects"],
        ),
        ({"items": [{"name": "a", "value": 1}]}, ['.items[name="a"].value: expected string, got number']),
    ],
)
def test_errors(sample: SchemaNode, config: Any, errors: list[str]) -> None:
    assert check.errors(config, sample) == errors


def test_a_schema_that_keeps_unknown_fields_takes_them() -> None:
    node = SchemaNode(SchemaType.OBJECT)
    node.properties = {"a": SchemaNode(SchemaType.STRING)}
    node.preserve_unknown = True
    assert check.errors({"b": {"c": 1}}, node) == []
    assert check.errors({"a": 1}, node) == [".a: expected string, got number"]


@pytest.mark.parametrize("value", [1, "1", "50%", 1.5, None])
def test_quantities_and_percentages_are_numbers_or_strings(deployment_node: SchemaNode, value: Any) -> None:
    config = {"spec": {"strategy": {"rollingUpdate": {"maxSurge": value}}}}
    assert check.errors(config, deployment_node) == []


def test_real_manifests(pod_node: SchemaNode) -> None:
    container = {
        "name": "a",
        "resources": {"limits": {"cpu": 1, "memory": "1Gi"}},
        "ports": [{"containerPort": 80}],
    }
    assert check.errors({"spec": {"containers": [container]}}, pod_node) == []
    assert check.errors({"spec": {"containers": [{**container, "imagee": "x"}]}}, pod_node) == [
        '.spec.containers[name="a"].imagee: field not declared in schema'
    ]

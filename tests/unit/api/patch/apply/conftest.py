"""Schemas to apply to: one with every way a list or map can be divided, and the stock ones."""

from typing import Any

import msgspec
import pytest

from alcove.api.schema import kubernetes_schemas
from alcove.api.schema.definitions import Definitions, Schema
from alcove.api.schema.node import SchemaNode

TEXT = {"type": "string"}
SET = {"type": "array", "items": TEXT, "x-kubernetes-list-type": "set"}
PAIR = {
    "type": "object",
    "properties": {"a": TEXT, "b": TEXT, "deep": {"type": "object", "properties": {"c": TEXT}}},
}


def keyed(item: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {
        "type": "array",
        "items": item,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": keys,
    }


PORT = {
    "type": "object",
    "properties": {"port": {"type": "integer"}, "protocol": {**TEXT, "default": "TCP"}, "label": TEXT},
}
ITEM = {
    "type": "object",
    "properties": {"name": TEXT, "value": TEXT, "tags": SET, "ports": keyed(PORT, "port", "protocol")},
}
SAMPLE: dict[str, Any] = {
    "type": "object",
    "properties": {
        "apiVersion": TEXT,
        "kind": TEXT,
        "metadata": {
            "type": "object",
            "properties": {
                "name": TEXT,
                "uid": TEXT,
                "resourceVersion": TEXT,
                "labels": {"type": "object", "additionalProperties": TEXT},
            },
        },
        "number": {"type": "number"},
        "text": TEXT,
        "free": {"type": "object", "additionalProperties": TEXT},
        "pair": PAIR,
        "pairs": {"type": "object", "additionalProperties": PAIR},
        "lists": {"type": "object", "additionalProperties": SET},
        "atomicMap": {"type": "object", "additionalProperties": TEXT, "x-kubernetes-map-type": "atomic"},
        "atomicList": {"type": "array", "items": TEXT, "x-kubernetes-list-type": "atomic"},
        "set": SET,
        "items": keyed(ITEM, "name"),
        "any": {},
        "status": PAIR,
    },
}


@pytest.fixture(scope="session")
def sample() -> SchemaNode:
    """A custom resource's schema: no name, so nothing in it is there from the start."""
    node = Definitions({"Sample": msgspec.convert(SAMPLE, Schema)}, {}).node("Sample")
    node.name = ""
    return node


@pytest.fixture(scope="session")
def definitions() -> Definitions:
    return kubernetes_schemas.load()


@pytest.fixture(scope="session")
def pod_node(definitions: Definitions) -> SchemaNode:
    return definitions.node("io.k8s.api.core.v1.Pod")


@pytest.fixture(scope="session")
def deployment_node(definitions: Definitions) -> SchemaNode:
    return definitions.node("io.k8s.api.apps.v1.Deployment")

from typing import Any

import orjson

from alcove.api.schema import kubernetes_schemas
from alcove.api.schema.body import parse_json, parse_yaml
from alcove.api.schema.decode import decode
from alcove.api.schema.paths import LENGTH_MAX, REPORTED_MAX, FieldPath

LONG = "k" * 1000


def nested(bottom: dict[str, Any]) -> dict[str, Any]:
    """A CRD whose schema nests under very long keys: 60 KB of path to `bottom`."""
    schema = bottom
    for _ in range(60):
        schema = {"properties": {LONG: schema}}
    versions = [{"name": "v1", "schema": {"openAPIV3Schema": schema}}]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "spec": {"versions": versions},
    }


def test_paths_read_as_kubernetes_writes_them() -> None:
    path = FieldPath(FieldPath(FieldPath(FieldPath(None, "spec"), "containers"), 0), "image")
    assert str(path) == "spec.containers[0].image"


def test_unknown_fields_under_long_keys_cost_little() -> None:
    node = kubernetes_schemas.load().node(
        "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition"
    )
    body = nested({"properties": {str(i): {f"unknown{i}": {}} for i in range(10_000)}})
    unknown: list[str] = []

    decode(node, body, unknown=unknown)

    assert len(unknown) == REPORTED_MAX
    assert all(len(path) <= LENGTH_MAX + 1 for path in unknown)


def test_duplicate_fields_under_long_keys_cost_little() -> None:
    bottom = b"[" + b",".join([b'{"a":1,"a":{}}'] * 5_000) + b"]"
    text = orjson.dumps(nested({"default": 0})).replace(b'"default":0', b'"default":' + bottom)
    for parse in (parse_json, lambda text, messages: parse_yaml(b"# YAML\n" + text, messages)):
        duplicates: list[str] = []
        parse(text, duplicates)
        assert 0 < len(duplicates) <= REPORTED_MAX
        assert all(len(message) <= LENGTH_MAX + 100 for message in duplicates)

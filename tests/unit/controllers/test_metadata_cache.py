"""What is kept of objects and CRDs, and what an established CRD serves."""

from typing import Any

import pytest

from alcove.client.resources import Resource
from alcove.controllers.metadata_cache import resource_of, trim_metadata, without_schemas


def crd(*, established: str = "True", versions: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    served = {"name": "v1", "served": True, "storage": True, "schema": {"huge": "x" * 1000}}
    return {
        "metadata": {"name": "widgets.example.com", "uid": "u", "tenant": "a", "managedFields": [1]},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": versions if versions is not None else [served],
            "conversion": {"strategy": "None"},
        },
        "status": {
            "acceptedNames": {"plural": "widgets", "kind": "Widget"},
            "conditions": [{"type": "Established", "status": established}],
        },
    }


def test_only_what_is_needed_is_kept() -> None:
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "o", "uid": "1", "more": "x"}
    metadata = {"name": "x", "uid": "u", "labels": {"a": "b"}, "ownerReferences": [owner], "finalizers": []}
    kept = trim_metadata({"metadata": metadata, "spec": {}})
    del owner["more"]
    assert kept == {"metadata": {"name": "x", "uid": "u", "ownerReferences": [owner]}}


def test_a_crd_is_kept_without_its_schema() -> None:
    kept = without_schemas(crd())
    assert "huge" not in str(kept) and "managedFields" not in kept["metadata"]
    assert resource_of(kept) == resource_of(crd())


@pytest.mark.parametrize(
    ("versions", "expected"),
    [
        ([{"name": "v1", "served": True, "storage": True}], "v1"),
        ([{"name": "v2", "served": True}, {"name": "v1", "served": True, "storage": True}], "v1"),
        ([{"name": "v2", "served": True}, {"name": "v1", "served": False, "storage": True}], "v2"),
    ],
)
def test_it_serves_its_stored_version_first(versions: list[dict[str, Any]], expected: str) -> None:
    assert resource_of(crd(versions=versions)) == Resource("example.com", expected, "widgets", "Widget")


def test_one_that_is_not_established_serves_nothing() -> None:
    assert resource_of(crd(established="False")) is None
    assert resource_of(crd(versions=[])) is None

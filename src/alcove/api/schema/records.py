"""Builds the JSON schemas of fields, records and kinds that are defined here, as Kubernetes publishes them."""

from typing import Any

META = "#/$defs/io.k8s.apimachinery.pkg.apis.meta.v1"
QUANTITY = "#/$defs/io.k8s.apimachinery.pkg.api.resource.Quantity"


def text(description: str, *choices: str) -> dict[str, Any]:
    return {"type": "string", "description": description, **({"enum": list(choices)} if choices else {})}


def number(description: str) -> dict[str, Any]:
    """Return the schema of a number that may be written as a string."""
    return {"x-kubernetes-int-or-string": True, "description": description}


def integer(description: str) -> dict[str, Any]:
    return {"type": "integer", "format": "int64", "description": description}


def names(description: str, list_type: str = "atomic") -> dict[str, Any]:
    return {
        "type": "array",
        "items": {"type": "string"},
        "x-kubernetes-list-type": list_type,
        "description": description,
    }


def record(description: str, fields: dict[str, Any], required: tuple[str, ...] = ()) -> dict[str, Any]:
    body = {"type": "object", "description": description, "properties": fields}
    return {**body, "required": list(required)} if required else body


CONDITIONS = {
    "type": "array",
    "items": {"$ref": f"{META}.Condition"},
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["type"],
    "x-kubernetes-patch-merge-key": "type",
    "x-kubernetes-patch-strategy": "merge",
    "description": "Conditions of the object, one per type.",
}


def kind(
    description: str, group: str, name: str, spec: dict[str, Any], status: dict[str, Any]
) -> dict[str, Any]:
    properties = {
        "apiVersion": text("API version of this object."),
        "kind": text("Kind of this object."),
        "metadata": {"$ref": f"{META}.ObjectMeta", "description": "Standard object metadata."},
        "spec": {**spec, "description": "Desired state."},
        "status": {**status, "description": "Observed state."},
    }
    return {
        **record(description, properties),
        "x-kubernetes-group-version-kind": [{"group": group, "kind": name, "version": "v1"}],
    }


def ref(definition: str) -> dict[str, Any]:
    return {"$ref": f"#/$defs/{definition}"}

"""The schemas of metrics.k8s.io, which are not in the package of the stock kinds."""

from typing import Any

PACKAGE = "io.k8s.metrics.pkg.apis.metrics.v1beta1"

_META = "#/$defs/io.k8s.apimachinery.pkg.apis.meta.v1"
_USAGE = {
    "type": "object",
    "additionalProperties": {"$ref": "#/$defs/io.k8s.apimachinery.pkg.api.resource.Quantity"},
    "description": "CPU and memory in use; memory is the working set.",
}


def _kind(kind: str, description: str, fields: dict[str, Any], required: list[str]) -> dict[str, Any]:
    properties = {
        "apiVersion": {"type": "string", "description": "Version of the schema this object is written in."},
        "kind": {"type": "string", "description": "Kind of this object."},
        "metadata": {"$ref": f"{_META}.ObjectMeta", "description": "Whose usage it is."},
        "timestamp": {"$ref": f"{_META}.Time", "description": "When it was measured."},
        "window": {"type": "string", "description": "Over how long, before that, CPU was measured."},
        **fields,
    }
    return {
        "type": "object",
        "description": description,
        "properties": properties,
        "required": ["timestamp", "window", *required],
        "x-kubernetes-group-version-kind": [{"group": "metrics.k8s.io", "kind": kind, "version": "v1beta1"}],
    }


_CONTAINERS = {
    "type": "array",
    "description": "The usage of each container that runs.",
    "items": {"$ref": f"#/$defs/{PACKAGE}.ContainerMetrics"},
    "x-kubernetes-list-type": "atomic",
}

DEFINITIONS: dict[str, dict[str, Any]] = {
    f"{PACKAGE}.ContainerMetrics": {
        "type": "object",
        "description": "What one container uses.",
        "properties": {
            "name": {"type": "string", "description": "The container's name in its pod."},
            "usage": _USAGE,
        },
        "required": ["name", "usage"],
    },
    f"{PACKAGE}.NodeMetrics": _kind(
        "NodeMetrics", "What a node uses, all its pods and itself.", {"usage": _USAGE}, ["usage"]
    ),
    f"{PACKAGE}.PodMetrics": _kind(
        "PodMetrics", "What the containers of a pod use.", {"containers": _CONTAINERS}, ["containers"]
    ),
}

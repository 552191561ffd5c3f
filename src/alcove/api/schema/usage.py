"""The schemas of usage.alcove.io, ring0's own objects about what tenants use, and the amounts in them."""

from typing import Any

from alcove.api.usage import API_NAMES

PACKAGE = "io.alcove.usage.v1alpha1"
AMOUNTS = f"#/$defs/{PACKAGE}.UsageAmounts"

_META = "#/$defs/io.k8s.apimachinery.pkg.apis.meta.v1"
_DESCRIPTIONS = {
    "cpuUsedNanoseconds": "CPU time of the tenant's pods, from its cgroups.",
    "cpuRequestedNanoseconds": "CPU requests of its pods, multiplied by the time that they were on a node.",
    "memoryUsedByteSeconds": "Memory in use by its pods (working set), multiplied by time; sampled.",
    "memoryRequestedByteSeconds": "Memory requests of its pods, multiplied by the time that they were on a node.",
    "podSeconds": "Time that its pods were on a node, of all pods together.",
    "podsStarted": "Number of pods that were started on a node.",
    "volumeByteSeconds": "Size of its local volumes, multiplied by time.",
    "apiNanoseconds": "Time that its requests took in API servers.",
    "networkOutBytes": "Bytes that its pods sent within their networks.",
    "networkInBytes": "Bytes that its pods received within their networks.",
    "worldOutBytes": "Bytes that its pods sent to external addresses, on connections that they opened.",
    "worldInBytes": "Bytes that its pods received from external addresses, on connections that they opened.",
    "nodePortOutBytes": "Bytes that left nodes by node ports of its services.",
    "nodePortInBytes": "Bytes that entered nodes by node ports of its services.",
    "loadBalancerOutBytes": "Bytes that left nodes by addresses of its load balancers.",
    "loadBalancerInBytes": "Bytes that entered nodes by addresses of its load balancers.",
    "ingressOutBytes": "Bytes that its pods sent to clients of its ingresses.",
    "ingressInBytes": "Bytes that its pods received from clients of its ingresses.",
}


def _text(description: str) -> dict[str, Any]:
    return {"type": "string", "description": description}


def _kind(kind: str, description: str, fields: dict[str, Any], *required: str) -> dict[str, Any]:
    return {
        "type": "object",
        "description": description,
        "properties": {
            "apiVersion": _text("Version of the schema this object is written in."),
            "kind": _text("Kind of this object."),
            "metadata": {"$ref": f"{_META}.ObjectMeta", "description": "Name of the object."},
            **fields,
        },
        "required": list(required),
        "x-kubernetes-group-version-kind": [
            {"group": "usage.alcove.io", "kind": kind, "version": "v1alpha1"}
        ],
    }


def _map(of: dict[str, Any], description: str) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": of, "description": description}


_TENANTS = _map({"$ref": AMOUNTS}, "Amounts by tenant.")

DEFINITIONS: dict[str, dict[str, Any]] = {
    f"{PACKAGE}.UsageAmounts": {
        "type": "object",
        "description": "What a tenant has used; what is absent is zero.",
        "properties": {
            name: {"type": "integer", "format": "int64", "description": _DESCRIPTIONS[name]}
            for name in API_NAMES
        },
    },
    f"{PACKAGE}.UsageReportSpec": {
        "type": "object",
        "description": "What tenants have used, by hour.",
        "properties": {"hours": _map(_TENANTS, "Amounts by the time at which the hour begins.")},
    },
    f"{PACKAGE}.UsageReportStatus": {
        "type": "object",
        "description": "What has become of the report.",
        "properties": {
            "settledThrough": _text(
                "The last hour that is summed up: it may be left out, and is not read again."
            )
        },
    },
    f"{PACKAGE}.UsageReport": _kind(
        "UsageReport",
        "What tenants have used of one node or API server in the hours that are not summed up yet.",
        {
            "spec": {"$ref": f"#/$defs/{PACKAGE}.UsageReportSpec", "description": "The report."},
            "status": {"$ref": f"#/$defs/{PACKAGE}.UsageReportStatus", "description": "Written by ring0."},
        },
    ),
    f"{PACKAGE}.UsageRecordSpec": {
        "type": "object",
        "description": "What a tenant has used in one day.",
        "properties": {
            "tenant": _text("Name of the tenant, which may no longer exist."),
            "hours": _map({"$ref": AMOUNTS}, "Amounts by the time at which the hour begins."),
        },
        "required": ["tenant"],
    },
    f"{PACKAGE}.UsageRecord": _kind(
        "UsageRecord",
        "What a tenant has used in one day, of all nodes and API servers.",
        {"spec": {"$ref": f"#/$defs/{PACKAGE}.UsageRecordSpec", "description": "The sums."}},
        "spec",
    ),
}

"""The schemas of Kubernetes' kinds, from the package `kubernetes-validate`, with Alcove's additions.

The package's file is 1.8 MB of JSON, mostly descriptions. It is never held in memory as a parsed whole: each
definition is cut out as raw bytes, and only those that are used are decoded, without their descriptions.
OpenAPI gets the descriptions from `documents()`.
"""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec
import orjson
from msgspec import Raw, Struct, field

from alcove.api.schema import alcove_schemas, identity, metrics, sight, usage
from alcove.api.schema.definitions import Definitions, Schema

VERSION = "1.37.0"
"""The Kubernetes release whose schemas are served."""

_META = "io.k8s.apimachinery.pkg.apis.meta.v1"
_CORE = "io.k8s.api.core.v1"

ADDITIONS: dict[str, dict[str, Any]] = {
    f"{_META}.ObjectMeta": {
        "tenant": {
            "type": "string",
            "description": "Tenant the object belongs to. Set by the server; if given, it must be the request's.",
        },
    },
    f"{_CORE}.PodSpec": {
        "network": {
            "type": "string",
            "description": "Network of the tenant that the pod is attached to; without one, the network `default`.",
        },
        "nics": {
            "type": "array",
            "description": "Where in the network the pod is attached. Flat networks ignore it.",
            "x-kubernetes-list-type": "atomic",
            "items": {"$ref": f"#/$defs/{alcove_schemas.CORE}.Nic"},
        },
    },
    f"{_CORE}.ServiceSpec": {
        "network": {
            "type": "string",
            "description": "Network of the tenant whose pods back the service and that its address belongs to.",
        },
    },
    # Missing in the package's file: server-side apply identifies a port by number and protocol, and most
    # manifests omit the protocol.
    f"{_CORE}.ContainerPort": {"protocol": {"type": "string", "default": "TCP"}},
    f"{_CORE}.ServicePort": {"protocol": {"type": "string", "default": "TCP"}},
}
"""Fields added to stock definitions in addition to those in the package's file."""


REMOVED: dict[str, tuple[str, ...]] = {
    f"{_CORE}.ClusterTrustBundleProjection": ("user",),
    f"{_CORE}.ConfigMapVolumeSource": ("defaultUser",),
    f"{_CORE}.DownwardAPIVolumeFile": ("user",),
    f"{_CORE}.DownwardAPIVolumeSource": ("defaultUser",),
    f"{_CORE}.EmptyDirVolumeSource": ("mode",),
    f"{_CORE}.GRPCAction": ("mode",),
    f"{_CORE}.HTTPGetAction": ("protocol",),
    f"{_CORE}.KeyToPath": ("user",),
    f"{_CORE}.NodeSpec": ("podPreemptionPolicy",),
    f"{_CORE}.PodCertificateProjection": ("user",),
    f"{_CORE}.PodSpec": ("evictionResponders", "schedulingGroup"),
    f"{_CORE}.ProjectedVolumeSource": ("defaultUser",),
    f"{_CORE}.SecretVolumeSource": ("defaultUser",),
    f"{_CORE}.ServiceAccountTokenProjection": ("user",),
    f"{_CORE}.VolumeMount": ("bindMountOptions",),
    "io.k8s.api.batch.v1.JobSpec": ("scheduling",),
}
"""Fields of features that are off by default in this release. Kubernetes drops them without a word; here they are
unknown fields, of which clients are told."""


_ADDITIONS = (
    alcove_schemas.DEFINITIONS
    | identity.DEFINITIONS
    | metrics.DEFINITIONS
    | sight.DEFINITIONS
    | usage.DEFINITIONS
)


class _File(Struct):
    definitions: dict[str, Raw] = field(name="$defs")


def load() -> Definitions:
    """Return all definitions, stock and Alcove's; each is compiled on first use."""
    raw: dict[str, Schema | Raw] = {}
    raw.update(msgspec.json.decode(_read(), type=_File).definitions)
    raw.update({name: msgspec.convert(body, Schema) for name, body in _ADDITIONS.items()})
    additions = msgspec.convert(ADDITIONS, dict[str, dict[str, Schema]])
    return Definitions(raw, additions, REMOVED)


def documents() -> dict[str, dict[str, Any]]:
    """Return every definition as JSON schema with descriptions: about 4 MB, read again on each call."""
    spec: dict[str, dict[str, Any]] = orjson.loads(_read())["$defs"]
    spec.update(orjson.loads(orjson.dumps(_ADDITIONS)))
    for name, fields in ADDITIONS.items():
        for field_name, schema in fields.items():
            spec[name]["properties"].setdefault(field_name, {}).update(schema)
    for name, removed in REMOVED.items():
        for field_name in removed:
            del spec[name]["properties"][field_name]
    return spec


def package_files() -> tuple[Path, Path]:
    """The only files of the package `kubernetes-validate` that are used: the one by which it is found, and the
    definitions."""
    # Located without importing: the package's code would load 10 MB of validators.
    package = find_spec("kubernetes_validate")
    assert package is not None and package.origin is not None
    origin = Path(package.origin)
    return origin, origin.parent / "kubernetes-json-schema" / f"v{VERSION}-local" / "_definitions.json"


def _read() -> bytes:
    return package_files()[1].read_bytes()

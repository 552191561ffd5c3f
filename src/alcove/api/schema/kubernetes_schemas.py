"""The schemas of Kubernetes' own kinds, from the package `kubernetes-validate`, and what we add to them.

The package's file is 1.8 MB of JSON, mostly descriptions. Nodes are made from it without ever holding
it parsed: each definition is cut out as raw bytes and only those asked for are decoded, without their
descriptions. Who needs the texts (OpenAPI) asks `documents()`, and may drop them again.
"""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec
import orjson
from msgspec import Raw, Struct, field

from alcove.api.schema import alcove_schemas, metrics
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
    # Not ours, but missing in the package's file: server-side apply finds a port by number and
    # protocol, and most manifests leave the protocol out.
    f"{_CORE}.ContainerPort": {"protocol": {"type": "string", "default": "TCP"}},
    f"{_CORE}.ServicePort": {"protocol": {"type": "string", "default": "TCP"}},
}
"""Fields that stock definitions have here beyond the package's file."""


_OWN = alcove_schemas.DEFINITIONS | metrics.DEFINITIONS


class _File(Struct):
    definitions: dict[str, Raw] = field(name="$defs")


def load() -> Definitions:
    """Every definition, stock and ours, ready to be compiled one by one."""
    raw: dict[str, Schema | Raw] = {}
    raw.update(msgspec.json.decode(_read(), type=_File).definitions)
    raw.update({name: msgspec.convert(body, Schema) for name, body in _OWN.items()})
    additions = msgspec.convert(ADDITIONS, dict[str, dict[str, Schema]])
    return Definitions(raw, additions)


def documents() -> dict[str, dict[str, Any]]:
    """Every definition as JSON schema, with descriptions: some 4 MB, freshly read for the caller."""
    found: dict[str, dict[str, Any]] = orjson.loads(_read())["$defs"]
    found.update(orjson.loads(orjson.dumps(_OWN)))
    for name, fields in ADDITIONS.items():
        for field_name, schema in fields.items():
            found[name]["properties"].setdefault(field_name, {}).update(schema)
    return found


def _read() -> bytes:
    # Found, not imported: the package's own code would bring 10 MB of validators along.
    package = find_spec("kubernetes_validate")
    assert package is not None and package.origin is not None
    folder = Path(package.origin).parent / "kubernetes-json-schema" / f"v{VERSION}-local"
    return (folder / "_definitions.json").read_bytes()

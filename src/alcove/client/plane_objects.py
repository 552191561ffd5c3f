"""Checks what a dedicated plane sends as objects: its API server may be anybody's, and validate nothing.

An object must have the types of its kind's schema, so that those who read it find numbers where there are numbers, and
names, which become keys and parts of paths. Whose it is decides the mirror. Fields that the schema does not have
stay: a newer server may know them. Kinds without a schema here (of CRDs) are mirrored by their metadata only.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from alcove.api import names
from alcove.api.errors import BadRequest
from alcove.api.objects import Object
from alcove.api.schema import alcove_schemas, kubernetes_schemas
from alcove.api.schema.decode import check_types
from alcove.api.schema.definitions import Definitions
from alcove.api.schema.node import SchemaNode
from alcove.client.errors import MalformedResponse
from alcove.client.resources import TENANTS, Resource
from alcove.client.watch_events import revision_of

_METADATA = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_PACKAGES = {
    "": "io.k8s.api.core",
    "arktos.futurewei.com": alcove_schemas.ARKTOS.removesuffix(".v1"),
    "apiextensions.k8s.io": "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions",
    "apiregistration.k8s.io": "io.k8s.kube-aggregator.pkg.apis.apiregistration",
}
"""Of the definitions of groups that are not named like their group."""
NAME_LENGTH_MAX = 253
UID_LENGTH_MAX = 128

Check = Callable[[Object], None]
"""Raises MalformedResponse. May bring values to their canonical form."""


def check_for(resource: Resource, *, metadata_only: bool) -> Check:
    """The check for objects of the resource."""
    node = None if metadata_only else _node(resource)
    metadata_node = _definitions().node(_METADATA)

    def check(obj: Object) -> None:
        try:
            if node is not None:
                obj.get("metadata", {}).pop("managedFields", None)
                check_types(node, obj)
            else:
                check_types(metadata_node, obj.get("metadata"))
        except (AttributeError, BadRequest) as error:
            raise MalformedResponse(f"not a {resource.kind}: {error}") from error
        _check_metadata(obj.get("metadata") or {}, resource)
        revision_of(obj)

    return check


def _check_metadata(metadata: Object, resource: Resource) -> None:
    name, namespace, uid = (metadata.get(field, "") for field in ("name", "namespace", "uid"))
    if not name or len(name) > NAME_LENGTH_MAX or names.path_segment(name):
        raise MalformedResponse(f"invalid name of a {resource.kind}")
    if bool(namespace) != resource.namespaced or (namespace and names.dns_label(namespace)):
        raise MalformedResponse(f"invalid namespace of a {resource.kind}")
    if not uid or len(uid) > UID_LENGTH_MAX:
        raise MalformedResponse(f"invalid uid of a {resource.kind}")


@lru_cache(maxsize=256)
def _node(resource: Resource) -> SchemaNode | None:
    package = _PACKAGES.get(resource.group, f"io.k8s.api.{resource.group.partition('.')[0]}")
    prefix = alcove_schemas.CORE if resource == TENANTS else f"{package}.{resource.version}"
    try:
        return _definitions().node(f"{prefix}.{resource.kind}")
    except KeyError:
        return None


@lru_cache(maxsize=1)
def _definitions() -> Definitions:
    """Loaded when the first dedicated plane is joined."""
    return kubernetes_schemas.load()

"""Ownership of the provider's objects: labels and annotations that the network controller sets on them, in
ring0.

Tenants can write the status and annotations of their own objects, so those are not trusted: the owner of a
VPC, VNI or address follows only from these annotations, which only ring0 can write.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from alcove.api import objects
from alcove.api.ids import TenantId
from alcove.api.objects import Object

NETWORK_MARK = "arktos.futurewei.com/network"
"""Annotation of a VPC, subnet or divider: `tenant/network`. Ring0 may set it beforehand to reserve a VPC."""
ATTACHED_MARK = "arktos.futurewei.com/attached"
"""Annotation of a VPC that existed before its network: NETWORK_MARK is removed when the network is
deleted."""
MADE_LABEL = "app.kubernetes.io/managed-by"
MADE_BY = "network-controller"
"""Label of an object that was created for a network: it is deleted with the network."""


class TenantNetworkId(Struct, frozen=True, order=True):
    tenant: TenantId
    name: str

    def __str__(self) -> str:
        return f"{self.tenant}/{self.name}"


def owner_of(obj: Object) -> TenantNetworkId | None:
    tenant, slash, name = objects.annotations(obj).get(NETWORK_MARK, "").partition("/")
    return TenantNetworkId(TenantId(tenant), name) if slash and tenant and name else None


def by_network(obj: Object) -> Iterable[str]:
    """An index by `tenant/network`."""
    mark = objects.annotations(obj).get(NETWORK_MARK)
    return (mark,) if mark else ()


def by_tenant(obj: Object) -> Iterable[str]:
    """An index by the tenant's name."""
    owner = owner_of(obj)
    return (owner.tenant,) if owner else ()


def is_made(obj: Object) -> bool:
    return objects.labels(obj).get(MADE_LABEL) == MADE_BY


def mark_made(obj: Object, owner: TenantNetworkId) -> Object:
    metadata = obj["metadata"]
    metadata.setdefault("annotations", {})[NETWORK_MARK] = str(owner)
    metadata.setdefault("labels", {})[MADE_LABEL] = MADE_BY
    return obj


def mark_attached(vpc: Object, owner: TenantNetworkId) -> None:
    annotations = vpc["metadata"].setdefault("annotations", {})
    annotations[NETWORK_MARK], annotations[ATTACHED_MARK] = str(owner), "true"


def unmark(vpc: Object) -> None:
    """Release an attached VPC for other networks; one that ring0 reserved stays reserved."""
    annotations = vpc["metadata"].get("annotations") or {}
    if annotations.pop(ATTACHED_MARK, None):
        annotations.pop(NETWORK_MARK, None)


class OwnerRef(Struct, frozen=True):
    """The pod or service that an endpoint was created for, from the endpoint's `spec.pod`."""

    tenant: TenantId
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.tenant}/{self.namespace}/{self.name}"

    @classmethod
    def parse(cls, text: str) -> OwnerRef | None:
        parts = text.split("/")
        return cls(TenantId(parts[0]), parts[1], parts[2]) if len(parts) == 3 and all(parts) else None

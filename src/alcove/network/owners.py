"""Whose the provider's objects are: marks that the adapter sets on them, in ring0.

Tenants can write their own objects' status and annotations, so nothing of those is believed: which VPC,
number and address is whose follows from these marks alone, which only ring0 can write.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from alcove.api import objects
from alcove.api.ids import TenantId
from alcove.api.objects import Object

NETWORK_MARK = "arktos.futurewei.com/network"
"""On a VPC, subnet, or divider, as an annotation: `tenant/network`. Ring0 may set it beforehand."""
ATTACHED_MARK = "arktos.futurewei.com/attached"
"""On a VPC that was there before its network, as an annotation: the network's mark goes with the network."""
MADE_LABEL = "app.kubernetes.io/managed-by"
MADE_BY = "network-controller"
"""On what was made for a network: it goes with the network."""


class TenantNetworkId(Struct, frozen=True, order=True):
    tenant: TenantId
    name: str

    def __str__(self) -> str:
        return f"{self.tenant}/{self.name}"


def owner_of(obj: Object) -> TenantNetworkId | None:
    tenant, slash, name = objects.annotations(obj).get(NETWORK_MARK, "").partition("/")
    return TenantNetworkId(TenantId(tenant), name) if slash and tenant and name else None


def by_network(obj: Object) -> Iterable[str]:
    """An index."""
    mark = objects.annotations(obj).get(NETWORK_MARK)
    return (mark,) if mark else ()


def by_tenant(obj: Object) -> Iterable[str]:
    """An index."""
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
    marks = vpc["metadata"].setdefault("annotations", {})
    marks[NETWORK_MARK], marks[ATTACHED_MARK] = str(owner), "true"


def unmark(vpc: Object) -> None:
    """Frees an attached VPC for other networks; one that ring0 reserved stays reserved."""
    marks = vpc["metadata"].get("annotations") or {}
    if marks.pop(ATTACHED_MARK, None):
        marks.pop(NETWORK_MARK, None)


class OwnerRef(Struct, frozen=True):
    """What an endpoint was made for: a pod or a service, as `spec.pod` of the endpoint tells."""

    tenant: TenantId
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.tenant}/{self.namespace}/{self.name}"

    @classmethod
    def parse(cls, text: str) -> OwnerRef | None:
        parts = text.split("/")
        return cls(TenantId(parts[0]), parts[1], parts[2]) if len(parts) == 3 and all(parts) else None

"""Accessors for fields of claims, volumes and classes, and the indexes over them."""

from __future__ import annotations

from collections.abc import Iterable

from alcove.api import objects, quantity
from alcove.api.objects import Object, get
from alcove.api.quantity import Quantity
from alcove.client.keys import ObjectKey

BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
STORAGE_PROVISIONER = "volume.kubernetes.io/storage-provisioner"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
BETA_CLASS = "volume.beta.kubernetes.io/storage-class"
IS_DEFAULT = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
NO_PROVISIONER = "kubernetes.io/no-provisioner"

CLAIM = "claim"
"""An index: volumes by the claim they are for, and pods by the claims they use, as namespace/name."""
FREE = "free"
"""An index: available volumes without a claimRef, by their class."""
VOLUME = "volume"
"""An index: claims by the volume they name."""
CLASS = "class"
"""An index: claims that have no volume yet, by their class."""


def class_of(obj: Object) -> str:
    """The storage class of a claim or volume; empty if it has none."""
    return objects.annotations(obj).get(BETA_CLASS) or get(obj, "spec", "storageClassName", default="")


def modes(obj: Object) -> frozenset[str]:
    return frozenset(get(obj, "spec", "accessModes", default=()))


def volume_mode(obj: Object) -> str:
    return get(obj, "spec", "volumeMode", default="Filesystem")  # type: ignore[no-any-return]


def requested(claim: Object) -> Quantity:
    return quantity.of(get(claim, "spec", "resources", "requests", "storage", default="0"))


def capacity(volume: Object) -> Quantity:
    return quantity.of(get(volume, "spec", "capacity", "storage", default="0"))


def phase(obj: Object) -> str:
    return get(obj, "status", "phase", default="Pending")  # type: ignore[no-any-return]


def is_meant_for(volume: Object, claim: Object) -> bool:
    """Whether the volume's claimRef refers to this claim; without a uid, to any claim of that name."""
    ref = get(volume, "spec", "claimRef", default={})
    metadata = claim["metadata"]
    return (
        ref.get("name") == metadata["name"]
        and ref.get("namespace") == metadata.get("namespace")
        and ref.get("uid") in (None, "", metadata["uid"])
    )


def waits_for_consumer(chosen: Object | None) -> bool:
    return chosen is not None and chosen.get("volumeBindingMode") == "WaitForFirstConsumer"


# Indexes


def claim_of(volume: Object) -> Iterable[str]:
    ref = get(volume, "spec", "claimRef")
    return [f"{ref.get('namespace')}/{ref.get('name')}"] if ref else []


def free_class(volume: Object) -> Iterable[str]:
    is_free = phase(volume) == "Available" and get(volume, "spec", "claimRef") is None
    return [class_of(volume)] if is_free and "deletionTimestamp" not in volume["metadata"] else []


def volume_of(claim: Object) -> Iterable[str]:
    name = get(claim, "spec", "volumeName")
    return [name] if name else []


def waiting_class(claim: Object) -> Iterable[str]:
    return [] if get(claim, "spec", "volumeName") else [class_of(claim)]


def claims_of(pod: Object) -> Iterable[str]:
    namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
    for volume in get(pod, "spec", "volumes", default=()):
        if claim := volume.get("persistentVolumeClaim"):
            yield f"{namespace}/{claim.get('claimName', '')}"
        elif "ephemeral" in volume:
            yield f"{namespace}/{name}-{volume['name']}"


def key_of(key: ObjectKey, claim_name: str) -> ObjectKey:
    """The key of a claim from an index value (namespace/name), in the tenant of `key`."""
    namespace, _, name = claim_name.partition("/")
    return key.of(name, namespace)


def namespaced_name(key: ObjectKey) -> str:
    return f"{key.namespace}/{key.name}"

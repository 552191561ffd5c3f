"""The initial objects of a tenant. Other controllers add service accounts, config maps and DNS services."""

from __future__ import annotations

from msgspec import Struct

from alcove.api import local_volumes
from alcove.api.ids import DEFAULT_NAMESPACES, SYSTEM, TenantId
from alcove.api.objects import Object
from alcove.client.resources import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    NAMESPACES,
    NETWORKS,
    STORAGE_CLASSES,
    Resource,
)

_RBAC = "rbac.authorization.k8s.io"
ADMIN_USER = "admin"
ADMIN_ROLE = "admin-role"
ADMIN_ROLE_BINDING = "admin-role-binding"


class InitialObject(Struct, frozen=True):
    resource: Resource
    obj: Object


def first_objects(tenant: TenantId, network: Object) -> list[InitialObject]:
    """In any order: each can be created without the others.

    The API server creates ring0's namespaces itself, and ring0's administrator needs no role.
    """
    if tenant == SYSTEM:
        return [InitialObject(NETWORKS, network), InitialObject(STORAGE_CLASSES, _storage_class(tenant))]
    return [
        *(InitialObject(NAMESPACES, _named(tenant, name)) for name in DEFAULT_NAMESPACES),
        InitialObject(CLUSTER_ROLES, _admin_role(tenant)),
        InitialObject(CLUSTER_ROLE_BINDINGS, _admin_role_binding(tenant)),
        InitialObject(NETWORKS, network),
        InitialObject(STORAGE_CLASSES, _storage_class(tenant)),
    ]


def _named(tenant: TenantId, name: str) -> Object:
    return {"metadata": {"name": name, "tenant": tenant}}


def _admin_role(tenant: TenantId) -> Object:
    everything = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}
    paths = {"nonResourceURLs": ["*"], "verbs": ["*"]}
    return {**_named(tenant, ADMIN_ROLE), "rules": [everything, paths]}


def _admin_role_binding(tenant: TenantId) -> Object:
    return {
        **_named(tenant, ADMIN_ROLE_BINDING),
        "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": ADMIN_ROLE},
        "subjects": [{"apiGroup": _RBAC, "kind": "User", "name": ADMIN_USER}],
    }


def _storage_class(tenant: TenantId) -> Object:
    """The tenant may change or delete its storage class, as all initial objects."""
    storage_class = _named(tenant, local_volumes.STORAGE_CLASS)
    storage_class["metadata"]["annotations"] = {"storageclass.kubernetes.io/is-default-class": "true"}
    return {
        **storage_class,
        "provisioner": local_volumes.PROVISIONER,
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "WaitForFirstConsumer",
        "allowVolumeExpansion": True,
    }

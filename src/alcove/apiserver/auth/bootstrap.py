"""The initial objects of a plane, which the server writes at its first start.

For ring0: its namespaces and the Tenant `system`. For a tenant on a dedicated plane: the same three
namespaces, role and binding that the tenant controller creates for tenants on the home plane, and its Tenant, so that
its administrator can begin before controllers have joined. If the tenant moves there, its objects come from the home plane:
until then the plane is closed (`store/closures.py`), and has none of them. The default
roles are not included: they are built in (`rbac/defaults`) and never stored.
"""

import time
from collections.abc import Callable, Sequence

from alcove.api import meta
from alcove.api.encode import encode
from alcove.api.ids import DEFAULT_NAMESPACES, SYSTEM, Key, Revision, TenantId
from alcove.api.kinds.core.control_planes import DEDICATED
from alcove.api.kinds.core.tenants import DEFAULT_WEIGHT, FINALIZER
from alcove.api.objects import Object
from alcove.api.registry import KindRegistry
from alcove.apiserver.rbac.roletables import API_VERSION, GROUP
from alcove.apiserver.rbac.tenantroles import EVERYTHING
from alcove.store import closures
from alcove.store.base import ABSENT, RevisionMismatch, Store, WriteOp

NODE_LEASES = "kube-node-lease"
ADMIN_USER = "admin"
ADMIN_ROLE = "admin-role"
ADMIN_ROLE_BINDING = "admin-role-binding"


async def create_missing(
    store: Store,
    kinds: KindRegistry,
    tenant: TenantId,
    exists: Callable[[Key], bool],
    is_closed: bool = False,
) -> Revision:
    """Creates the objects of ring0 and, on a dedicated plane's first start, those of its tenant. Existing ones stay
    unchanged, and what the tenant's administrator deletes later is not created again. `is_closed`: the tenant's objects
    are moved there.

    `exists` may lack what another server writes at this moment. Nothing is written where it lacks nothing: a write makes the
    embedded store read all keys first. Returns a revision at which all objects are there.
    """
    now = meta.format_time(time.time())
    groups = [[_create(kinds, obj, now)] for obj in objects(SYSTEM)]
    if tenant != SYSTEM:
        content = [tenant_closure(tenant)] if is_closed else objects(tenant)
        first = [*content, dedicated_tenant(tenant, now if is_closed else "")]
        # All at once: when the Tenant is there, nothing is written.
        groups.append([_create(kinds, obj, now) for obj in first])
    missing = [ops for ops in groups if not any(exists(op.key) for op in ops)]
    for ops in missing:
        await _write_new(store, ops)
    return await store.revision() if missing else Revision(0)


async def _write_new(store: Store, ops: Sequence[WriteOp]) -> None:
    try:
        await store.write(ops)
    except RevisionMismatch:
        pass


def _create(kinds: KindRegistry, obj: Object, now: str) -> WriteOp:
    tenant = TenantId(obj["metadata"]["tenant"])
    group, _, version = obj["apiVersion"].rpartition("/")
    kind = kinds.find_kind(group, version, obj["kind"])
    assert kind is not None
    name, namespace_ = obj["metadata"]["name"], obj["metadata"].get("namespace", "")
    metadata = {
        **obj["metadata"],
        "uid": meta.new_uid(),
        "creationTimestamp": now,
        "selfLink": meta.self_link(kind, tenant, namespace_, name),
    }
    key = Key(kind.storage_resource, tenant, namespace_, name)
    return WriteOp(key, encode({**obj, "metadata": metadata}), ABSENT)


def objects(tenant: TenantId) -> list[Object]:
    """The objects in the order to create them, without uid and times, which the server sets."""
    if tenant == SYSTEM:
        namespaces = [namespace(tenant, name) for name in (*DEFAULT_NAMESPACES, NODE_LEASES)]
        return [system_tenant(), *namespaces]
    return [
        *(namespace(tenant, name) for name in DEFAULT_NAMESPACES),
        admin_role(tenant),
        admin_role_binding(tenant),
    ]


def system_tenant() -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Tenant",
        "metadata": {"name": SYSTEM, "tenant": SYSTEM},
        "spec": {},
        "status": {"phase": "Active"},
    }


def dedicated_tenant(tenant: TenantId, initialized_at: str = "") -> Object:
    """The Tenant on its own plane; the one at home says what it may have. One that moves there has its initial objects."""
    initialized = {
        "type": "Initialized",
        "status": "True",
        "reason": "Moved",
        "message": "The tenant's objects are moved here",
        "lastTransitionTime": initialized_at,
    }
    spec = {"controlPlane": {"mode": DEDICATED}, "weight": DEFAULT_WEIGHT, "finalizers": [FINALIZER]}
    return {
        "apiVersion": "v1",
        "kind": "Tenant",
        "metadata": {"name": tenant, "tenant": SYSTEM},
        "spec": spec,
        "status": {"phase": "Active", **({"conditions": [initialized]} if initialized_at else {})},
    }


def tenant_closure(tenant: TenantId) -> Object:
    key = closures.closure(tenant)
    metadata = {"name": key.name, "namespace": key.namespace, "tenant": SYSTEM}
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": {}}


def namespace(tenant: TenantId, name: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, "tenant": tenant, "labels": {"kubernetes.io/metadata.name": name}},
        "spec": {"finalizers": ["kubernetes"]},
        "status": {"phase": "Active"},
    }


def admin_role(tenant: TenantId) -> Object:
    """The role that allows everything in the tenant."""
    return {
        "apiVersion": API_VERSION,
        "kind": "ClusterRole",
        "metadata": {"name": ADMIN_ROLE, "tenant": tenant},
        "rules": [line.to_rule() for line in EVERYTHING],
    }


def admin_role_binding(tenant: TenantId) -> Object:
    return {
        "apiVersion": API_VERSION,
        "kind": "ClusterRoleBinding",
        "metadata": {"name": ADMIN_ROLE_BINDING, "tenant": tenant},
        "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": ADMIN_ROLE},
        "subjects": [{"apiGroup": GROUP, "kind": "User", "name": ADMIN_USER}],
    }

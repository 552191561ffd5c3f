"""The default roles and bindings: built in, the same objects for all tenants, never stored.

A tenant has them without a write: a thousand tenants cost no memory for them, and a new release's
rights are everybody's at once, with nothing to reconcile. A stored object of the same name takes the
place of a built-in one; when it is deleted, the built-in one is back. So what a user edits stays as
edited, and what a user deletes returns, as Kubernetes' own default roles do at its next start.
"""

import uuid
from collections.abc import Iterable, Mapping

from alcove.api.ids import SYSTEM, GroupResource, TenantId
from alcove.api.objects import Object
from alcove.apiserver.rbac import aggregate, ring0roles, tenantroles
from alcove.apiserver.rbac.roletables import API_VERSION, GROUP, by_name

ROLES = GroupResource(GROUP, "roles")
ROLE_BINDINGS = GroupResource(GROUP, "rolebindings")
CLUSTER_ROLES = GroupResource(GROUP, "clusterroles")
CLUSTER_ROLE_BINDINGS = GroupResource(GROUP, "clusterrolebindings")

_TENANT: Mapping[GroupResource, Mapping[str, Object]] = {
    CLUSTER_ROLES: by_name(tenantroles.CLUSTER_ROLES),
    CLUSTER_ROLE_BINDINGS: by_name(tenantroles.CLUSTER_ROLE_BINDINGS),
}
_RING0: Mapping[GroupResource, Mapping[str, Object]] = {
    CLUSTER_ROLES: by_name((*tenantroles.CLUSTER_ROLES, *ring0roles.CLUSTER_ROLES)),
    CLUSTER_ROLE_BINDINGS: by_name((*tenantroles.CLUSTER_ROLE_BINDINGS, *ring0roles.CLUSTER_ROLE_BINDINGS)),
}
_NONE: Mapping[str, Object] = {}
_UID_SPACE = uuid.UUID("5d0c2a0e-6f0a-4a53-9d0b-0b7f3a1f7a11")


def built_in(tenant: TenantId, resource: GroupResource) -> Mapping[str, Object]:
    """The tenant's built-in objects by name, bare of what tells one tenant's from another's. Shared."""
    return (_RING0 if tenant == SYSTEM else _TENANT).get(resource, _NONE)


def with_built_in(tenant: TenantId, resource: GroupResource, stored: Iterable[Object]) -> dict[str, Object]:
    """All of the tenant's objects by name: the stored ones, and built-in ones they do not replace."""
    return {**built_in(tenant, resource), **{obj["metadata"]["name"]: obj for obj in stored}}


def get(
    tenant: TenantId, resource: GroupResource, name: str, created: str, stored_roles: Iterable[Object] = ()
) -> Object | None:
    """A built-in object as the API shows it: with metadata of its own in the tenant, and an aggregated
    role with the rules that it gathers from built-in and `stored_roles`. `created` is the tenant's
    creation time. Its revision is 0, that of an object which is not in the store. Shared inside: never
    change it."""
    bare = built_in(tenant, resource).get(name)
    if bare is None:
        return None
    uid = uuid.uuid5(_UID_SPACE, f"{tenant}/{resource}/{name}")
    path = f"/apis/{API_VERSION}/tenants/{tenant}/{resource.resource}/{name}"
    metadata = {
        **bare["metadata"],
        "tenant": tenant,
        "selfLink": path,
        "uid": str(uid),
        "creationTimestamp": created,
        "resourceVersion": "0",
    }
    shown = {**bare, "metadata": metadata}
    if aggregate.is_aggregated(bare):
        roles = with_built_in(tenant, resource, stored_roles)
        shown["rules"] = [rule.to_object() for rule in aggregate.aggregate(bare, roles)]
    return shown

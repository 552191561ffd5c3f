"""The default roles and bindings: built in, the same objects for all tenants, never stored.

A tenant has them without a write: they cost no memory per tenant, and the permissions of a new release apply
immediately in all tenants, without reconciliation. A stored object replaces the built-in one of its name;
when it is deleted, the built-in one is shown again. So a user's edit persists, and a deleted role returns, as
the default roles of Kubernetes do at its next start.
"""

from collections.abc import Iterable, Mapping

from alcove.api.ids import SYSTEM, GroupResource, TenantId
from alcove.api.objects import Object
from alcove.apiserver.rbac import ring0roles, tenantroles
from alcove.apiserver.rbac.roletables import GROUP, by_name

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


def built_in(tenant: TenantId, resource: GroupResource) -> Mapping[str, Object]:
    """The tenant's built-in objects by name, without tenant-specific metadata. Shared: do not change them."""
    return (_RING0 if tenant == SYSTEM else _TENANT).get(resource, _NONE)


def with_built_in(tenant: TenantId, resource: GroupResource, stored: Iterable[Object]) -> dict[str, Object]:
    """All of the tenant's objects by name: the stored ones, and the built-in ones of other names."""
    return {**built_in(tenant, resource), **{obj["metadata"]["name"]: obj for obj in stored}}

"""Types for identifiers, so that the type checker rejects mixing one with another.

An object is `(tenant, resource, namespace, name)`; the tenant comes first and has no default.
"""

from typing import NewType

from msgspec import Struct

TenantId = NewType("TenantId", str)
Revision = NewType("Revision", int)
"""A position in the store's log; as a string it is an object's `resourceVersion`."""

SYSTEM = TenantId("system")
"""Ring0's tenant: it owns nodes, tenants and the VPC provider's objects."""
ALL = TenantId("all")
"""In a path: all tenants. Never the tenant of an object."""

DEFAULT_NAMESPACES = ("default", "kube-system", "kube-public")


class GroupResource(Struct, frozen=True, order=True, cache_hash=True):
    """A resource without its version, as roles, quotas and the store's keys refer to it. Every look-up of an object hashes
    one."""

    group: str
    resource: str

    def __str__(self) -> str:
        return f"{self.resource}.{self.group}" if self.group else self.resource


class GroupVersionKind(Struct, frozen=True, order=True):
    group: str
    version: str
    kind: str

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @classmethod
    def parse(cls, api_version: str, kind: str) -> "GroupVersionKind":
        group, _, version = api_version.rpartition("/")
        return cls(group, version, kind)


class Key(Struct, frozen=True, order=True, gc=False):
    """The identity of an object in the store. `namespace` is empty for objects without a namespace. It can be in no
    cycle, so the garbage collector need not know the millions of them."""

    resource: GroupResource
    tenant: TenantId
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"/registry/{self.resource}/{self.tenant}/{self.namespace}/{self.name}"

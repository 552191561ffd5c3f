"""The access that a request needs: the input of authorization."""

from msgspec import Struct

from alcove.api.ids import TenantId


class Access(Struct, frozen=True):
    """Access to a resource, or to a non-resource URL if `path` is set.

    `name` is the object's name, also for a list or watch that selects one `metadata.name`.
    """

    verb: str
    tenant: TenantId
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""
    fields: str = ""
    """The field selector of a list or watch, as the client sent it."""
    labels: str = ""
    """The label selector of a list or watch, as the client sent it."""
    metadata_only: bool = False
    """Whether a list or watch shows only metadata."""

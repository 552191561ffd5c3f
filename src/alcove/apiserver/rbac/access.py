"""What a request wants: the question that authorization answers."""

from msgspec import Struct

from alcove.api.ids import TenantId


class Access(Struct, frozen=True):
    """With a `path` it is a path that is no resource; else a resource.

    `name` is the object's, also for a list or watch that selects one `metadata.name`.
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
    """The field selector of a list or watch, as the client wrote it."""
    labels: str = ""
    """The label selector, likewise."""
    metadata_only: bool = False
    """Whether nothing but metadata is shown of a list or watch."""

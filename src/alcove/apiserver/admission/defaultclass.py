"""Finds the class that a tenant annotated as its default."""

from collections.abc import Sequence

from alcove.api import objects
from alcove.api.ids import GroupResource, TenantId
from alcove.apiserver.reader import CacheReader


def default_class(reader: CacheReader, tenant: TenantId, resource: GroupResource, keys: Sequence[str]) -> str:
    """The name of the newest class with an annotation of `keys`; of several, the first by name. Empty if
    none."""
    if not reader.generation(tenant, resource):
        return ""
    marked = [
        each["metadata"]
        for each in reader.list(tenant, resource)
        if any(objects.annotations(each).get(key) == "true" for key in keys)
    ]
    newest = max((each["creationTimestamp"] for each in marked), default="")
    return min((each["name"] for each in marked if each["creationTimestamp"] == newest), default="")

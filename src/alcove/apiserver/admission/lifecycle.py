"""Objects may be created only in tenants and namespaces that exist and are not terminating. Pods also in a tenant that still has
to be saved with the files in its volumes, because pods read them.

Both are checked twice, at the beginning and right before the write: a webhook in between may be slow, and an
object that is created in a namespace that was deleted meanwhile would never be deleted.
"""

from collections.abc import Iterable

from alcove.api.errors import Details, Forbidden, NotFound, StatusCause
from alcove.api.ids import DEFAULT_NAMESPACES, SYSTEM, GroupResource, Key
from alcove.api.kinds.core.backups import reads_volumes_before_delete
from alcove.api.objects import Object
from alcove.api.resources import NAMESPACES, PODS, TENANTS
from alcove.apiserver.admission.base import Attributes, Operation, Plugin
from alcove.apiserver.cache.cache import Cache
from alcove.apiserver.reader import CacheReader
from alcove.store.base import WriteOp


def _is_terminating(obj: Object) -> bool:
    return "deletionTimestamp" in obj["metadata"]


class TenantLifecycle(Plugin):
    """Creating requires a tenant that is not terminating. Ring0 never is."""

    def __init__(self, reader: CacheReader) -> None:
        self._reader = reader

    def handles(self, operation: Operation, resource: GroupResource, subresource: str) -> bool:
        return operation is Operation.CREATE or (operation is Operation.DELETE and resource == TENANTS)

    async def admit(self, attributes: Attributes) -> None:
        if attributes.operation is Operation.DELETE and attributes.name == SYSTEM:
            raise Forbidden.of(TENANTS, SYSTEM, "this tenant may not be deleted")
        self.check_create(attributes)

    def check_create(self, attributes: Attributes) -> None:
        if attributes.tenant == SYSTEM or attributes.operation is not Operation.CREATE:
            return
        tenant = self._reader.get(SYSTEM, TENANTS, "", attributes.tenant)
        if tenant is None:
            raise NotFound.of(TENANTS, attributes.tenant)
        is_read = attributes.resource == PODS and reads_volumes_before_delete(tenant)
        if _is_terminating(tenant) and not is_read:
            raise _terminating_error(attributes, "tenant", attributes.tenant)


class NamespaceLifecycle(Plugin):
    """Creating requires a namespace that is not terminating; the default namespaces cannot be deleted before
    their tenant."""

    def __init__(self, reader: CacheReader) -> None:
        self._reader = reader

    def handles(self, operation: Operation, resource: GroupResource, subresource: str) -> bool:
        if operation is Operation.DELETE:
            return resource == NAMESPACES
        return operation is Operation.CREATE and resource != NAMESPACES

    async def admit(self, attributes: Attributes) -> None:
        if attributes.operation is Operation.DELETE:
            self._check_delete(attributes)
        else:
            self.check_create(attributes)

    def _check_delete(self, attributes: Attributes) -> None:
        if attributes.name not in DEFAULT_NAMESPACES:
            return
        tenant = self._reader.get(SYSTEM, TENANTS, "", attributes.tenant)
        if tenant is None or not _is_terminating(tenant):
            shown = f"{attributes.tenant}/{attributes.name}"
            raise Forbidden.of(NAMESPACES, shown, "this namespace may not be deleted")

    def check_create(self, attributes: Attributes) -> None:
        if not attributes.namespace:
            return
        namespace = self._reader.get(attributes.tenant, NAMESPACES, "", attributes.namespace)
        if namespace is None:
            raise NotFound.of(NAMESPACES, attributes.namespace)
        if _is_terminating(namespace):
            raise _terminating_error(attributes, "namespace", attributes.namespace)


class StillLiving(Plugin):
    """Repeats the checks after all other plugins that can wait.

    If the store is `shared`, another server may be deleting the namespace at the same time. So the object is
    written only if its namespace (or its tenant, if it has none) is still at the revision that was checked.
    """

    def __init__(self, cache: Cache, *, shared: bool = False) -> None:
        self._cache = cache
        self._shared = shared
        self._tenants = TenantLifecycle(cache)
        self._namespaces = NamespaceLifecycle(cache)

    def handles(self, operation: Operation, resource: GroupResource, subresource: str) -> bool:
        return operation is Operation.CREATE

    async def validate(self, attributes: Attributes) -> None:
        self._tenants.check_create(attributes)
        if attributes.resource != NAMESPACES:
            self._namespaces.check_create(attributes)
        if self._shared:
            attributes.also += self._unchanged(attributes)

    def _unchanged(self, attributes: Attributes) -> Iterable[WriteOp]:
        """Operations that require the namespace or tenant to be unchanged."""
        if attributes.namespace and attributes.resource != NAMESPACES:
            key = Key(NAMESPACES, attributes.tenant, "", attributes.namespace)
        elif attributes.tenant != SYSTEM:
            key = Key(TENANTS, SYSTEM, "", attributes.tenant)
        else:
            return
        entry = self._cache.entry(key)
        assert entry is not None, "its existence was checked before"
        yield WriteOp(key, None, entry.revision, keeps=True)


def _terminating_error(attributes: Attributes, scope: str, name: str) -> Forbidden:
    resource = attributes.requested_resource
    message = f"unable to create new content in {scope} {name} because it is being terminated"
    error = Forbidden.of(resource, attributes.name, message)
    cause = StatusCause(
        f"{scope.capitalize()}Terminating", f"{scope} {name} is being terminated", f"metadata.{scope}"
    )
    error.details = Details(
        name=attributes.name, group=resource.group, kind=resource.resource, causes=(cause,)
    )
    return error

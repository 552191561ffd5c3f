"""Where objects may be: in tenants and namespaces that exist and are not on their way out.

Both are looked at twice, first and last, right before the write: a webhook in between may take its time,
and what is created in a namespace that is gone by then would stay for ever.
"""

from collections.abc import Iterable

from alcove.api.errors import Details, Forbidden, NotFound, StatusCause
from alcove.api.ids import DEFAULT_NAMESPACES, SYSTEM, GroupResource, Key, TenantId
from alcove.api.objects import Object
from alcove.apiserver.admission.base import Attributes, Operation, Plugin
from alcove.apiserver.cache.cache import Cache
from alcove.apiserver.reader import CacheReader
from alcove.store.base import WriteOp

NAMESPACES = GroupResource("", "namespaces")
TENANTS = GroupResource("", "tenants")


def _is_ending(obj: Object) -> bool:
    return "deletionTimestamp" in obj["metadata"]


class TenantLifecycle(Plugin):
    """Creating needs a living tenant. `home` is the tenant whose server this is: it has no Tenant object
    to ask for, or cannot lose it."""

    def __init__(self, reader: CacheReader, home: TenantId = SYSTEM) -> None:
        self._reader = reader
        self._home = home

    def handles(self, operation: Operation, resource: GroupResource, subresource: str) -> bool:
        return operation is Operation.CREATE or (operation is Operation.DELETE and resource == TENANTS)

    async def admit(self, attributes: Attributes) -> None:
        if attributes.operation is Operation.DELETE and attributes.name == SYSTEM:
            raise Forbidden.of(TENANTS, SYSTEM, "this tenant may not be deleted")
        self.check_create(attributes)

    def check_create(self, attributes: Attributes) -> None:
        if attributes.tenant == self._home or attributes.operation is not Operation.CREATE:
            return
        tenant = self._reader.get(SYSTEM, TENANTS, "", attributes.tenant)
        if tenant is None:
            raise NotFound.of(TENANTS, attributes.tenant)
        if _is_ending(tenant):
            raise _ending(attributes, "tenant", attributes.tenant)


class NamespaceLifecycle(Plugin):
    """Creating in a namespace needs it to exist and live; the first three namespaces stay as long as
    their tenant does."""

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
        if tenant is None or not _is_ending(tenant):
            shown = f"{attributes.tenant}/{attributes.name}"
            raise Forbidden.of(NAMESPACES, shown, "this namespace may not be deleted")

    def check_create(self, attributes: Attributes) -> None:
        if not attributes.namespace:
            return
        namespace = self._reader.get(attributes.tenant, NAMESPACES, "", attributes.namespace)
        if namespace is None:
            raise NotFound.of(NAMESPACES, attributes.namespace)
        if _is_ending(namespace):
            raise _ending(attributes, "namespace", attributes.namespace)


class StillLiving(Plugin):
    """The same, asked again when nobody else is left to be asked.

    Where the store is `shared`, another server may be ending the place just now. So the object is written only if
    its namespace (or its tenant, if it is in none) is then as it was here.
    """

    def __init__(self, cache: Cache, home: TenantId = SYSTEM, *, shared: bool = False) -> None:
        self._cache = cache
        self._home = home
        self._shared = shared
        self._tenants = TenantLifecycle(cache, home)
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
        """What must hold when the object is written."""
        if attributes.namespace and attributes.resource != NAMESPACES:
            key = Key(NAMESPACES, attributes.tenant, "", attributes.namespace)
        elif attributes.tenant != self._home:
            key = Key(TENANTS, SYSTEM, "", attributes.tenant)
        else:
            return
        place = self._cache.entry(key)
        assert place is not None, "it was there a moment ago"
        yield WriteOp(key, None, place.revision, keeps=True)


def _ending(attributes: Attributes, what: str, name: str) -> Forbidden:
    resource = attributes.requested_resource
    message = f"unable to create new content in {what} {name} because it is being terminated"
    error = Forbidden.of(resource, attributes.name, message)
    cause = StatusCause(
        f"{what.capitalize()}Terminating", f"{what} {name} is being terminated", f"metadata.{what}"
    )
    error.details = Details(
        name=attributes.name, group=resource.group, kind=resource.resource, causes=(cause,)
    )
    return error

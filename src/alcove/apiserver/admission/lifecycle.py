"""Where objects may be: in tenants and namespaces that exist and are not on their way out."""

from alcove.api.errors import Cause, Details, Forbidden, NotFound
from alcove.api.ids import DEFAULT_NAMESPACES, SYSTEM, GroupResource, TenantId
from alcove.api.objects import Object
from alcove.apiserver.admission.base import Attributes, Operation, Plugin
from alcove.apiserver.reader import Reader

NAMESPACES = GroupResource("", "namespaces")
TENANTS = GroupResource("", "tenants")


def _is_ending(obj: Object) -> bool:
    return "deletionTimestamp" in obj["metadata"]


class TenantLifecycle(Plugin):
    """Creating needs a living tenant. `home` is the tenant whose server this is: it has no Tenant object
    to ask for, or cannot lose it."""

    def __init__(self, reader: Reader, home: TenantId = SYSTEM) -> None:
        self._reader = reader
        self._home = home

    def handles(self, operation: Operation, resource: GroupResource, subresource: str) -> bool:
        return operation is Operation.CREATE or (operation is Operation.DELETE and resource == TENANTS)

    async def admit(self, attributes: Attributes) -> None:
        if attributes.operation is Operation.DELETE:
            if attributes.name == SYSTEM:
                raise Forbidden.of(TENANTS, SYSTEM, "this tenant may not be deleted")
        elif attributes.tenant != self._home:
            self._check(attributes)

    def _check(self, attributes: Attributes) -> None:
        tenant = self._reader.get(SYSTEM, TENANTS, "", attributes.tenant)
        if tenant is None:
            raise NotFound.of(TENANTS, attributes.tenant)
        if _is_ending(tenant):
            told = (
                f"unable to create new content in tenant {attributes.tenant} because it is being terminated"
            )
            raise _ending(attributes, told, "TenantTerminating")


class NamespaceLifecycle(Plugin):
    """Creating in a namespace needs it to exist and live; the first three namespaces stay as long as
    their tenant does."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def handles(self, operation: Operation, resource: GroupResource, subresource: str) -> bool:
        if operation is Operation.DELETE:
            return resource == NAMESPACES
        return operation is Operation.CREATE and resource != NAMESPACES

    async def admit(self, attributes: Attributes) -> None:
        if attributes.operation is Operation.DELETE:
            self._check_delete(attributes)
        elif attributes.namespace:
            self._check_create(attributes)

    def _check_delete(self, attributes: Attributes) -> None:
        if attributes.name not in DEFAULT_NAMESPACES:
            return
        tenant = self._reader.get(SYSTEM, TENANTS, "", attributes.tenant)
        if tenant is None or not _is_ending(tenant):
            shown = f"{attributes.tenant}/{attributes.name}"
            raise Forbidden.of(NAMESPACES, shown, "this namespace may not be deleted")

    def _check_create(self, attributes: Attributes) -> None:
        namespace = self._reader.get(attributes.tenant, NAMESPACES, "", attributes.namespace)
        if namespace is None:
            raise NotFound.of(NAMESPACES, attributes.namespace)
        if _is_ending(namespace):
            told = f"unable to create new content in namespace {attributes.namespace} because it is being terminated"
            raise _ending(attributes, told, "NamespaceTerminating")


def _ending(attributes: Attributes, told: str, reason: str) -> Forbidden:
    error = Forbidden.of(attributes.resource, attributes.name, told)
    where = attributes.namespace or attributes.tenant
    cause = Cause(reason, f"{where} is being terminated", "metadata.namespace")
    error.details = Details(
        name=attributes.name,
        group=attributes.resource.group,
        kind=attributes.resource.resource,
        causes=(cause,),
    )
    return error

"""Group versions belong to one server: an APIService cannot register one that this server serves, nor can a CRD
define one that an APIService has registered. A tenant has a number of both."""

from collections.abc import Iterator
from itertools import islice

from alcove.api import objects
from alcove.api.errors import Forbidden
from alcove.api.ids import SYSTEM, GroupResource, TenantId
from alcove.api.objects import Object
from alcove.api.registry import KindRegistry
from alcove.api.resources import API_SERVICES, CRDS
from alcove.apiserver.admission.base import Attributes, Operation, Plugin
from alcove.apiserver.aggregation import local_services
from alcove.apiserver.aggregation.registrations import group_version, has_service
from alcove.apiserver.crds import sharing
from alcove.apiserver.reader import CacheReader

SERVICES_PER_TENANT_MAX = 64
"""APIServices of a tenant that have a service."""
DEFINITIONS_PER_TENANT_MAX = 1_000
"""CustomResourceDefinitions of a tenant: each change of one takes time for each of them. Kubernetes' threshold is 500."""


class ApiServiceClaims(Plugin):
    def __init__(self, reader: CacheReader, registry: KindRegistry) -> None:
        self._reader = reader
        self._registry = registry

    def handles(self, operation: Operation, resource: GroupResource, subresource: str) -> bool:
        return operation in (Operation.CREATE, Operation.UPDATE) and (
            resource == API_SERVICES or (resource == CRDS and not subresource)
        )

    async def validate(self, attributes: Attributes) -> None:
        if attributes.resource == CRDS:
            self._check_definition(attributes)
        else:
            self._check_registration(attributes)

    def _check_registration(self, attributes: Attributes) -> None:
        obj, tenant = attributes.obj, attributes.tenant
        assert obj is not None
        holder = self._holder(tenant, obj)
        if holder:
            raise Forbidden.of(API_SERVICES, attributes.name, holder)
        is_new = has_service(obj) and (attributes.old is None or not has_service(attributes.old))
        if is_new and tenant != SYSTEM:
            existing = sum(map(has_service, self._reader.list(tenant, API_SERVICES)))
            if existing >= SERVICES_PER_TENANT_MAX:
                message = f"the tenant has {existing} APIServices with a service; remove one first"
                raise Forbidden.of(API_SERVICES, attributes.name, message)

    def _holder(self, tenant: TenantId, obj: Object) -> str:
        """Why the APIService may not register its group version; empty if it may."""
        group, version = group_version(obj)
        if local_services.has(self._registry, group, version):
            shown = f"{group}/{version}" if group else version
            return f'the group version "{shown}" is served by this API server itself'
        if not has_service(obj):
            return ""
        for crd in sharing.served(self._reader, tenant):
            spec = crd["spec"]
            if spec["group"] != group:
                continue
            if tenant != SYSTEM and crd["metadata"].get("tenant") == SYSTEM:
                return f'the group "{group}" is that of {objects.name(crd)}, which is a system CRD'
            if version in _served(crd):
                return f'the group version "{group}/{version}" is served by the CRD {objects.name(crd)}'
        return ""

    def _check_definition(self, attributes: Attributes) -> None:
        crd, tenant = attributes.obj, attributes.tenant
        assert crd is not None
        if attributes.old is None and tenant != SYSTEM:
            existing = sum(1 for _ in islice(self._reader.list(tenant, CRDS), DEFINITIONS_PER_TENANT_MAX))
            if existing == DEFINITIONS_PER_TENANT_MAX:
                message = f"the tenant has {existing} CustomResourceDefinitions; remove one first"
                raise Forbidden.of(CRDS, attributes.name, message)
        group = objects.get(crd, "spec", "group", default="")
        for version in _served(crd):
            name = f"{version}.{group}"
            registered = self._reader.get(attributes.tenant, API_SERVICES, "", name)
            if registered is not None and has_service(registered):
                message = f'the group version "{group}/{version}" is registered by the APIService {name}'
                raise Forbidden.of(CRDS, attributes.name, message)


def _served(crd: Object) -> Iterator[str]:
    for version in objects.get(crd, "spec", "versions", default=()):
        if version.get("served"):
            yield version.get("name", "")

"""One server for each group version: what an APIService or a CRD may not claim."""

from typing import Any

import pytest

from alcove.api import registry
from alcove.api.errors import Forbidden
from alcove.api.ids import SYSTEM, GroupResource, TenantId
from alcove.api.objects import Object
from alcove.api.resources import API_SERVICES, CRDS
from alcove.apiserver.admission.apiservices import (
    DEFINITIONS_PER_TENANT_MAX,
    SERVICES_PER_TENANT_MAX,
    ApiServiceClaims,
)
from alcove.apiserver.admission.base import Attributes, Operation
from alcove.apiserver.crds.sharing import FORCED, LABEL
from alcove.apiserver.identity import Identity
from alcove.testing.memory_reader import MemoryReader

ACME = TenantId("acme")
KINDS = registry.load()


def api_service(group: str, version: str = "v1", is_local: bool = False) -> Object:
    spec: Object = {"group": group, "version": version}
    if not is_local:
        spec["service"] = {"namespace": "n", "name": "s"}
    return {"metadata": {"name": f"{version}.{group}"}, "spec": spec}


def crd(group: str, tenant: TenantId = ACME, *versions: str, **labels: str) -> Object:
    served = [{"name": each, "served": True} for each in versions or ("v1",)]
    metadata = {"name": f"things.{group}", "tenant": tenant, "labels": labels}
    return {
        "metadata": metadata,
        "spec": {"group": group, "versions": [*served, {"name": "v0", "served": False}]},
    }


async def admitted(
    reader: MemoryReader,
    obj: Object,
    resource: GroupResource = API_SERVICES,
    tenant: TenantId = ACME,
    **fields: Any,
) -> None:
    kind = KINDS.find(resource.group, "v1", resource.resource)
    assert kind is not None
    values = {"operation": Operation.CREATE, **fields}
    attributes = Attributes(
        kind=kind,
        tenant=tenant,
        namespace="",
        name=obj["metadata"]["name"],
        obj=obj,
        identity=Identity(tenant, "someone"),
        **values,
    )
    plugin = ApiServiceClaims(reader, KINDS)
    assert plugin.handles(attributes.operation, resource, "")
    await plugin.validate(attributes)


@pytest.mark.parametrize(
    ("obj", "message"),
    [
        (api_service(""), 'the group version "v1" is served by this API server itself'),
        (api_service("apps"), 'the group version "apps/v1" is served by this API server itself'),
        (
            api_service("apps", is_local=True),
            'the group version "apps/v1" is served by this API server itself',
        ),
        (api_service("mizar.com"), 'the group version "mizar.com/v1" is served by this API server itself'),
        (api_service("mine.io"), 'the group version "mine.io/v1" is served by the CRD things.mine.io'),
        (
            api_service("shared.io", "v9"),
            'the group "shared.io" is that of things.shared.io, which is a system CRD',
        ),
    ],
)
@pytest.mark.parametrize("operation", [Operation.CREATE, Operation.UPDATE])
async def test_a_group_version_that_is_served_here_is_refused(
    obj: Object, message: str, operation: Operation
) -> None:
    reader = MemoryReader()
    reader.put(ACME, CRDS, crd("mine.io"))
    reader.put(SYSTEM, CRDS, crd("shared.io", SYSTEM, **{LABEL: FORCED}))
    with pytest.raises(Forbidden) as refused:
        await admitted(reader, obj, operation=operation)
    name = obj["metadata"]["name"]
    assert refused.value.message == f'apiservices.apiregistration.k8s.io "{name}" is forbidden: {message}'


async def test_what_nobody_serves_is_free() -> None:
    reader = MemoryReader()
    reader.put(ACME, CRDS, crd("mine.io"))
    reader.put(SYSTEM, CRDS, crd("ring0.io", SYSTEM))
    reader.put(TenantId("beta"), CRDS, crd("others.io"))
    for obj in (
        api_service("mine.io", "v2"),
        api_service("mine.io", "v0"),
        api_service("ring0.io"),
        api_service("others.io"),
        api_service("apps", "v9"),
        api_service("mine.io", is_local=True),
    ):
        await admitted(reader, obj)


async def test_a_crd_cannot_take_what_is_registered() -> None:
    reader = MemoryReader()
    reader.put(ACME, API_SERVICES, api_service("x.io", "v2"))
    reader.put(ACME, API_SERVICES, api_service("x.io", "v0"))
    await admitted(reader, crd("x.io"), CRDS)
    with pytest.raises(Forbidden) as refused:
        await admitted(reader, crd("x.io", ACME, "v1", "v2"), CRDS, operation=Operation.UPDATE)
    assert 'the group version "x.io/v2" is registered by the APIService v2.x.io' in refused.value.message
    await admitted(reader, crd("x.io", SYSTEM, "v2"), CRDS, tenant=SYSTEM)


async def test_their_number_is_bounded_for_tenants() -> None:
    reader = MemoryReader()
    for tenant in (ACME, SYSTEM):
        for number in range(SERVICES_PER_TENANT_MAX):
            reader.put(tenant, API_SERVICES, api_service(f"g{number}.io"))
    with pytest.raises(Forbidden, match="the tenant has 64 APIServices with a service"):
        await admitted(reader, api_service("more.io"))
    await admitted(reader, api_service("more.io", is_local=True))
    existing = api_service("g1.io")
    await admitted(reader, existing, operation=Operation.UPDATE, old=existing)
    await admitted(reader, api_service("more.io"), tenant=SYSTEM)


async def test_a_tenant_has_a_number_of_definitions_and_ring0_has_not() -> None:
    reader = MemoryReader()
    for number in range(DEFINITIONS_PER_TENANT_MAX):
        for tenant in (ACME, SYSTEM):
            reader.put(tenant, CRDS, crd(f"g{number}.io", tenant))
    with pytest.raises(Forbidden, match="the tenant has 1000 CustomResourceDefinitions; remove one first"):
        await admitted(reader, crd("another.io"), CRDS)
    await admitted(reader, crd("g1.io"), CRDS, operation=Operation.UPDATE, old=crd("g1.io"))
    await admitted(reader, crd("another.io", SYSTEM), CRDS, SYSTEM)

"""Webhooks and policies of a tenant are bounded together: each write looks at all of them."""

import pytest

from alcove.api import registry
from alcove.api.errors import Forbidden
from alcove.api.ids import SYSTEM, TenantId
from alcove.api.objects import Object
from alcove.apiserver.admission.admission_objects import GROUP, AdmissionObjectBounds
from alcove.apiserver.admission.base import Attributes, Operation
from alcove.apiserver.admission.webhooks.hooks import VALIDATING
from alcove.apiserver.identity import Identity
from alcove.testing.memory_reader import MemoryReader

ACME = TenantId("acme")
KIND = registry.load().find(GROUP, "v1", VALIDATING.resource)


def configuration(name: str, count: int) -> Object:
    rule = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}
    hooks = [{"name": f"h{number}", "rules": [rule], "sideEffects": "None"} for number in range(count)]
    return {"metadata": {"name": name}, "webhooks": hooks}


async def write(
    reader: MemoryReader, obj: Object, old: Object | None = None, tenant: TenantId = ACME
) -> None:
    assert KIND is not None
    attributes = Attributes(
        operation=Operation.CREATE if old is None else Operation.UPDATE,
        kind=KIND,
        tenant=tenant,
        namespace="",
        name=obj["metadata"]["name"],
        obj=obj,
        old=old,
        identity=Identity(tenant, "someone"),
    )
    plugin = AdmissionObjectBounds(reader)
    assert plugin.handles(attributes.operation, VALIDATING, "")
    await plugin.validate(attributes)


async def test_webhooks_of_all_configurations_of_a_tenant_count_together() -> None:
    reader = MemoryReader()
    for number in range(3):
        large = configuration(f"c{number}", 200)
        await write(reader, large)
        reader.put(ACME, VALIDATING, large)
    with pytest.raises(Forbidden, match="can have at most 10000 values together"):
        await write(reader, configuration("another", 400))
    await write(reader, configuration("another", 400), tenant=SYSTEM)
    # What has become too much may be made less.
    more, less = configuration("c0", 5_000), configuration("c0", 4_000)
    with pytest.raises(Forbidden):
        await write(reader, more, configuration("c0", 200))
    await write(reader, less, more)

"""What the API server reads as a whole has a bound for each tenant."""

import pytest

from alcove.api import registry
from alcove.api.errors import Forbidden
from alcove.api.ids import SYSTEM, GroupResource, TenantId
from alcove.api.objects import Object
from alcove.api.resources import CONFIG_MAPS, PRIORITY_CLASSES
from alcove.apiserver.admission import configuration_bounds
from alcove.apiserver.admission.base import Attributes, Operation
from alcove.apiserver.admission.configuration_bounds import ConfigurationBounds, KindBounds
from alcove.apiserver.admission.webhooks.hooks import VALIDATING
from alcove.apiserver.identity import Identity
from alcove.testing.memory_reader import MemoryReader

ACME = TenantId("acme")
KIND = registry.load().find(PRIORITY_CLASSES.group, "v1", PRIORITY_CLASSES.resource)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    bounds = {PRIORITY_CLASSES: KindBounds(bytes_max=2_000, values_max=100)}
    monkeypatch.setattr(configuration_bounds, "_BOUNDS", bounds)


def priority_class(name: str, size: int = 0, values: int = 0) -> Object:
    metadata = {"name": name, "finalizers": ["a"] * values}
    kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    return {**kind, "metadata": metadata, "value": 1, "description": "x" * size}


async def write(
    reader: MemoryReader, obj: Object, old: Object | None = None, by: TenantId = ACME, of: TenantId = ACME
) -> None:
    assert KIND is not None
    operation = Operation.CREATE if old is None else Operation.UPDATE
    attributes = Attributes(
        operation=operation,
        kind=KIND,
        tenant=of,
        namespace="",
        name=obj["metadata"]["name"],
        obj=obj,
        old=old,
        identity=Identity(by, "someone"),
    )
    await ConfigurationBounds(reader).validate(attributes)


async def test_all_objects_of_a_tenant_together_have_a_bound_in_bytes() -> None:
    reader = MemoryReader()
    reader.put(ACME, PRIORITY_CLASSES, priority_class("a", 800))
    reader.put(TenantId("other"), PRIORITY_CLASSES, priority_class("a", 1_900))
    await write(reader, priority_class("b", 700))
    with pytest.raises(Forbidden, match="all priorityclasses of a tenant can have at most 2000 bytes"):
        await write(reader, priority_class("b", 1_500))
    await write(reader, priority_class("b", 1_500), by=SYSTEM)
    await write(reader, priority_class("b", 1_500), of=SYSTEM)


async def test_and_in_values() -> None:
    reader = MemoryReader()
    reader.put(ACME, PRIORITY_CLASSES, priority_class("a", values=60))
    await write(reader, priority_class("b", values=20))
    with pytest.raises(Forbidden, match="100 values together"):
        await write(reader, priority_class("b", values=60))


async def test_what_is_too_much_can_become_less() -> None:
    reader = MemoryReader()
    old = reader.put(ACME, PRIORITY_CLASSES, priority_class("a", 5_000))
    await write(reader, priority_class("a", 4_000), old)
    with pytest.raises(Forbidden):
        await write(reader, priority_class("a", 6_000), old)
    with pytest.raises(Forbidden):
        await write(reader, priority_class("b"))


@pytest.mark.parametrize(
    ("resource", "is_bounded"), [(PRIORITY_CLASSES, True), (VALIDATING, True), (CONFIG_MAPS, False)]
)
def test_which_kinds(resource: GroupResource, is_bounded: bool) -> None:
    plugin = ConfigurationBounds(MemoryReader())
    assert plugin.handles(Operation.UPDATE, resource, "") == is_bounded
    assert plugin.handles(Operation.UPDATE, resource, "status") == is_bounded
    assert not plugin.handles(Operation.DELETE, resource, "")

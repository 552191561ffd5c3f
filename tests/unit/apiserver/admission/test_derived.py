"""A value derived from a tenant's objects is computed again when they change, and only then."""

from alcove.api.ids import TenantId
from alcove.api.resources import CONFIG_MAPS
from alcove.apiserver.admission import derived
from alcove.apiserver.admission.derived import DerivedCache
from alcove.testing.memory_reader import MemoryReader

ACME, OTHER = TenantId("acme"), TenantId("other")


def test_it_follows_the_objects_of_its_tenant_alone() -> None:
    reader, made = MemoryReader(), []

    def make(tenant: TenantId) -> int:
        made.append(tenant)
        return len(list(reader.list(tenant, CONFIG_MAPS)))

    values: DerivedCache[int] = DerivedCache(reader, CONFIG_MAPS, make)
    assert values.of(ACME) is None
    reader.put(ACME, CONFIG_MAPS, {"metadata": {"name": "a"}})
    assert (values.of(ACME), values.of(ACME), made) == (1, 1, [ACME])
    reader.put(OTHER, CONFIG_MAPS, {"metadata": {"name": "a"}})
    assert (values.of(ACME), made) == (1, [ACME])
    reader.remove(ACME, CONFIG_MAPS, "", "a")
    assert (values.of(ACME), made) == (0, [ACME, ACME])


def test_it_is_bounded() -> None:
    reader = MemoryReader()
    values: DerivedCache[str] = DerivedCache(reader, CONFIG_MAPS, str)
    for number in range(derived.TENANTS_MAX + 10):
        tenant = TenantId(f"t{number}")
        reader.put(tenant, CONFIG_MAPS, {"metadata": {"name": "a"}})
        assert values.of(tenant) == tenant
    assert len(values._cached) == derived.TENANTS_MAX

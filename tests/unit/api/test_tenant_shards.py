"""Shards of tenants: stable, balanced, and every tenant in exactly one."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alcove.api import tenant_shards
from alcove.api.ids import SYSTEM, TenantId
from alcove.api.tenant_shards import SHARDS_MAX, TenantShard, shard_of

NAMES = st.from_regex(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?", fullmatch=True).map(TenantId)
COUNTS = st.integers(1, SHARDS_MAX)


def test_the_hash_never_changes() -> None:
    """Two versions of the program must agree on the shard of a tenant."""
    shards = {name: shard_of(TenantId(name), 64) for name in ("acme", "globex", "t1", "t2", "a")}
    assert shards == {"acme": 1, "globex": 26, "t1": 41, "t2": 26, "a": 47}


@given(NAMES, COUNTS)
def test_a_tenant_is_in_exactly_one_shard(tenant: TenantId, count: int) -> None:
    holding = [index for index in range(count) if tenant in TenantShard(index, count)]
    assert holding == [0 if tenant == SYSTEM else shard_of(tenant, count)]


@given(NAMES, st.sampled_from([2, 3, 4, 8]))
def test_numbered_tenants_are_spread_evenly(prefix: TenantId, count: int) -> None:
    """Whatever their names begin with: within five standard deviations of a fair die."""
    tenants = 2_000
    found = Counter(shard_of(TenantId(f"{prefix}-{number}"), count) for number in range(tenants))
    expected = tenants / count
    deviation = (expected * (1 - 1 / count)) ** 0.5
    assert all(abs(found[index] - expected) < 5 * deviation for index in range(count))


def test_ring0_is_in_the_first_shard_and_where_it_is_asked_for() -> None:
    assert SYSTEM in TenantShard(0, 4)
    assert SYSTEM not in TenantShard(1, 4)
    assert SYSTEM in TenantShard(1, 4, with_system=True)


@given(
    COUNTS.flatmap(
        lambda count: st.builds(TenantShard, st.integers(0, count - 1), st.just(count), st.booleans())
    )
)
def test_the_text_of_a_shard_is_read_back(shard: TenantShard) -> None:
    assert tenant_shards.parse(str(shard)) == shard


@pytest.mark.parametrize(
    "text",
    ["", "1", "1/", "/2", "2/2", "0/0", "-1/2", "1/65", "0/2,", "0/2,other", "0/2 ", "x/y", "٠/2", "0/2/4"],
)
def test_what_is_not_a_shard_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="INDEX/COUNT"):
        tenant_shards.parse(text)

"""The accounts of buffered bytes: a tenant loses what is its own, a quiet one is always served."""

import pytest

from alcove.api.errors import TooManyRequests
from alcove.api.ids import SYSTEM, TenantId
from alcove.apiserver.buffers import BufferLimits, TenantBuffers

LOUD, QUIET = TenantId("loud"), TenantId("quiet")


def buffers(tenant: int = 100, total: int = 1_000) -> TenantBuffers:
    return TenantBuffers(BufferLimits(tenant_bytes_max=tenant, total_bytes_max=total))


def test_a_tenant_at_its_bound_is_refused_and_others_are_not() -> None:
    made = buffers()
    made.reserve(LOUD, 100)
    with pytest.raises(TooManyRequests) as refused:
        made.reserve(LOUD, 1)
    assert refused.value.details is not None and refused.value.details.retry_after_seconds
    made.reserve(QUIET, 100)
    made.release(LOUD, 50)
    made.reserve(LOUD, 50)


def test_a_tenants_own_history_makes_room_for_its_requests() -> None:
    made = buffers()
    shed: list[tuple[TenantId, int]] = []

    def drop(tenant: TenantId, count: int) -> None:
        shed.append((tenant, count))
        made.release(tenant, count)

    made.add_shedder(drop)
    made.hold(LOUD, 80)
    made.hold(QUIET, 80)
    made.reserve(LOUD, 60)
    assert shed == [(LOUD, 40)] and made.of(LOUD) == 100 and made.of(QUIET) == 80


def test_tenants_that_fill_the_total_together_do_not_lock_out_a_quiet_one() -> None:
    made = buffers(tenant=100, total=400)
    for number in range(4):
        made.reserve(TenantId(f"loud-{number}"), 100)
    made.reserve(QUIET, 50)
    with pytest.raises(TooManyRequests):
        made.reserve(TenantId("late"), 100)


def test_at_the_total_the_tenant_with_most_loses() -> None:
    made = buffers(tenant=300, total=400)
    losers: list[TenantId] = []

    def drop(tenant: TenantId, count: int) -> None:
        losers.append(tenant)
        made.release(tenant, count)

    made.add_shedder(drop)
    made.hold(LOUD, 300)
    made.hold(QUIET, 100)
    made.hold(QUIET, 150)
    assert set(losers) == {LOUD} and made.of(QUIET) == 250


def test_an_empty_account_is_forgotten() -> None:
    made = buffers()
    made.reserve(LOUD, 10)
    made.release(LOUD, 10)
    assert (made.of(LOUD), made.total) == (0, 0)


def test_ring0_is_served_and_loses_nothing_when_tenants_fill_the_total() -> None:
    made = buffers(tenant=100, total=400)
    shed: list[TenantId] = []
    made.add_shedder(lambda tenant, _count: shed.append(tenant))
    made.hold(SYSTEM, 150)
    for number in range(4):
        made.hold(TenantId(f"loud-{number}"), 90)
    made.reserve(SYSTEM, 200)
    made.check(SYSTEM)
    assert shed and SYSTEM not in shed

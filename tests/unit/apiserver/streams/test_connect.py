import pytest

from alcove.api.errors import TooManyRequests
from alcove.api.ids import TenantId
from alcove.apiserver.streams.connect import StreamLimits

A, B, C = TenantId("a"), TenantId("b"), TenantId("c")


def test_streams_are_limited_per_tenant() -> None:
    counting = StreamLimits(per_tenant_max=2, total_max=10)
    leave = counting.enter(A)
    counting.enter(A)
    with pytest.raises(TooManyRequests, match='tenant "a" has 2 streams open'):
        counting.enter(A)
    counting.enter(B)
    leave()
    leave()
    assert counting.total == 2
    counting.enter(A)


def test_streams_are_limited_in_total() -> None:
    counting = StreamLimits(per_tenant_max=2, total_max=2)
    for tenant in (A, B):
        counting.enter(tenant)
    with pytest.raises(TooManyRequests, match="this server has 2"):
        counting.enter(C)


def test_tenants_that_open_all_they_can_leave_streams_for_another() -> None:
    counting = StreamLimits()
    for number in range(64):
        with pytest.raises(TooManyRequests):
            while True:
                counting.enter(TenantId(f"greedy-{number % 16}"))
    for _ in range(64):
        counting.enter(A)

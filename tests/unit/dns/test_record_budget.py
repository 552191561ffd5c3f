from alcove.api.ids import TenantId
from alcove.dns.record_budget import RecordBudget


def test_every_tenant_finds_room_whatever_the_others_take() -> None:
    budget = RecordBudget(1_000, 400)
    taken = {}
    for number in range(8):
        tenant = TenantId(f"t{number}")
        while budget.has_room(tenant, budget.used(tenant), budget.used(tenant) + 1):
            budget.replace(tenant, 0, 1)
        taken[number] = budget.used(tenant)
    assert taken[0] == 400 and taken[1] == 300
    assert all(taken.values()) and sum(taken.values()) < 1_000
    first = TenantId("t0")
    assert budget.has_room(first, 400, 300) and not budget.has_room(first, 400, 401)
    budget.replace(first, 400, 0)
    assert budget.used(first) == 0 and budget.has_room(first, 0, 200)

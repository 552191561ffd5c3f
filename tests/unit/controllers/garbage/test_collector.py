"""Uids that are gone: never a wrong yes, and most of the time a right one."""

from uuid import uuid4

from alcove.api.ids import TenantId
from alcove.controllers.garbage.collector import AbsentOwners

ACME, BOLT = TenantId("acme"), TenantId("bolt")


def test_what_was_added_is_known_and_nothing_else() -> None:
    gone = AbsentOwners()
    uids = [str(uuid4()) for _ in range(1_000)]
    for uid in uids:
        gone.add(ACME, uid)
    assert sum(gone.has(ACME, uid) for uid in uids) > 900
    assert gone.has(ACME, uids[-1])
    assert not any(gone.has(ACME, str(uuid4())) for _ in range(10_000))
    assert not any(gone.has(BOLT, uid) for uid in uids), "another tenant's server may claim any uid"


def test_an_empty_table_knows_nobody() -> None:
    assert not AbsentOwners().has(ACME, "") and not AbsentOwners().has(ACME, "x")

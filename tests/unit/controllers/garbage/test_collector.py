"""Uids that are gone: never a wrong yes, and most of the time a right one."""

from uuid import uuid4

from alcove.controllers.garbage.collector import AbsentOwners


def test_what_was_added_is_known_and_nothing_else() -> None:
    gone = AbsentOwners()
    uids = [str(uuid4()) for _ in range(1_000)]
    for uid in uids:
        gone.add(uid)
    assert sum(uid in gone for uid in uids) > 900
    assert uids[-1] in gone
    assert not any(str(uuid4()) in gone for _ in range(10_000))


def test_an_empty_table_knows_nobody() -> None:
    assert "" not in AbsentOwners() and "x" not in AbsentOwners()

"""One owner's failures do not fill the log, and do not hide another's."""

from alcove.component.log_limit import OWNERS_MAX, LogLimit


def test_each_owner_logs_once_in_the_time() -> None:
    now = [100.0]
    limit = LogLimit(1.0, lambda: now[0])
    assert [limit.allows(owner) for owner in ("a", "a", "b", "a")] == [True, False, True, False]
    now[0] += 1.0
    assert limit.allows("a") and not limit.allows("a")


def test_owners_are_not_remembered_without_end() -> None:
    limit = LogLimit(1.0, lambda: 0.0)
    assert all(limit.allows(number) for number in range(3 * OWNERS_MAX))
    assert len(limit._logged_at) <= OWNERS_MAX

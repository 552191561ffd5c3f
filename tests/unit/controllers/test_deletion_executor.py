"""When the progress of a deletion is written."""

from alcove.api.ids import SYSTEM
from alcove.client.keys import HOME, ObjectKey
from alcove.controllers.deletion_executor import (
    REPORT_AFTER_SECONDS,
    REPORT_EVERY_SECONDS,
    REPORTED_MAX,
    DeletionReports,
)

KEY = ObjectKey(HOME, SYSTEM, "", "acme")
NOW = 1_700_000_000.0


def test_progress_is_written_some_time_after_the_deletion_was_begun_here() -> None:
    """Of many deletions at once each wrote its status, because it had to wait for its turn."""
    reports = DeletionReports()
    assert reports.wait_seconds(KEY, NOW) == REPORT_AFTER_SECONDS
    assert reports.wait_seconds(KEY, NOW + 0.5) == REPORT_AFTER_SECONDS - 0.5
    at = NOW + REPORT_AFTER_SECONDS
    assert reports.wait_seconds(KEY, at) == 0
    assert reports.wait_seconds(KEY, at + 1) == REPORT_EVERY_SECONDS - 1
    assert reports.wait_seconds(KEY, at + REPORT_EVERY_SECONDS) == 0
    reports.forget(KEY)
    assert reports.wait_seconds(KEY, at + 60) == REPORT_AFTER_SECONDS


def test_what_is_remembered_is_bounded() -> None:
    reports = DeletionReports()
    for number in range(REPORTED_MAX + 1):
        reports.wait_seconds(KEY.of(f"t-{number}", ""), NOW)
    assert reports.wait_seconds(KEY.of("t-0", ""), NOW) == REPORT_AFTER_SECONDS
    assert len(reports._due_at) == REPORTED_MAX

"""When a cron job is due, what it makes, and what it forgets."""

from datetime import datetime
from typing import Any

import pytest

from alcove.api import meta
from alcove.api.cron import CronError
from alcove.api.objects import Object
from alcove.controllers.cronjobs.due import MISSED_MAX, DueRun, due
from alcove.controllers.cronjobs.plan import SCHEDULED, beyond_history_limit, job_of, sort_jobs, status


def at(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def cron_job(schedule: str = "*/5 * * * *", served: str = "", **spec: Any) -> Object:
    return {
        "metadata": {
            "name": "tick", "namespace": "default", "uid": "c", "creationTimestamp": "2024-03-01T00:00:30Z",
        },
        "spec": {"schedule": schedule, "jobTemplate": {"spec": {}}, **spec},
        "status": {"lastScheduleTime": served} if served else {},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("obj", "now", "last", "next_", "missed"),
    [
        (cron_job(), "2024-03-01T00:04:59Z", None, "2024-03-01T00:05:00Z", 0),
        (cron_job(), "2024-03-01T00:05:00Z", "2024-03-01T00:05:00Z", "2024-03-01T00:10:00Z", 0),
        (cron_job(), "2024-03-01T00:17:00Z", "2024-03-01T00:15:00Z", "2024-03-01T00:20:00Z", 2),
        (cron_job(served="2024-03-01T00:15:00Z"), "2024-03-01T00:17:00Z", None, "2024-03-01T00:20:00Z", 0),
        (cron_job(), "2026-03-01T00:17:00Z", "2026-03-01T00:15:00Z", "2026-03-01T00:20:00Z", MISSED_MAX),
        (cron_job(startingDeadlineSeconds=60), "2024-03-01T00:17:00Z", None, "2024-03-01T00:20:00Z", 0),
        (
            cron_job(startingDeadlineSeconds=400), "2024-03-01T00:17:00Z",
            "2024-03-01T00:15:00Z", "2024-03-01T00:20:00Z", 0,
        ),
        (
            cron_job("0 9 * * *", timeZone="America/New_York"), "2024-03-01T15:00:00Z",
            "2024-03-01T14:00:00Z", "2024-03-02T14:00:00Z", 0,
        ),
        (cron_job("@every 1h"), "2024-03-01T02:10:00Z", "2024-03-01T02:00:30Z", "2024-03-01T03:00:30Z", 1),
        (cron_job("@every 1h"), "2024-03-01T00:59:00Z", None, "2024-03-01T01:00:30Z", 0),
        (cron_job("0 0 30 2 *"), "2024-03-01T00:59:00Z", None, None, 0),
    ],
)  # fmt: skip
def test_when_it_is_due(obj: Object, now: str, last: str | None, next_: str | None, missed: int) -> None:
    expected = DueRun(at(last) if last else None, at(next_) if next_ else None, missed)
    assert due(obj, at(now)) == expected


def test_an_invalid_schedule_is_reported() -> None:
    for obj in (cron_job("nonsense"), cron_job(timeZone="Mars/Base")):
        with pytest.raises(CronError):
            due(obj, at("2024-03-01T00:05:00Z"))


def test_a_scheduled_time_has_one_name() -> None:
    made = job_of(cron_job(jobTemplate={"metadata": {"labels": {"a": "b"}}, "spec": {"x": 1}}), 1_700_000_040)
    assert made["metadata"]["name"] == f"tick-{1_700_000_040 // 60}" and made["spec"] == {"x": 1}
    assert made["metadata"]["annotations"] == {SCHEDULED: meta.format_time(1_700_000_040)}
    assert made["metadata"]["labels"] == {"a": "b"}


def job(name: str, end: str = "", started: str = "") -> Object:
    conditions = [{"type": end, "status": "True"}] if end else []
    metadata = {"name": name, "namespace": "default", "uid": name, "resourceVersion": "1"}
    job_status = {"conditions": conditions, "startTime": started, "completionTime": f"{started}-end"}
    return {"metadata": metadata, "status": job_status}


def test_history_is_kept_to_its_limits_the_oldest_go() -> None:
    jobs = sort_jobs([job(f"s{n}", "Complete", f"t{n}") for n in range(5)] + [job("f1", "Failed", "t1"), job("f0", "Failed", "t0"), job("a")])  # fmt: skip
    assert [each["metadata"]["name"] for each in beyond_history_limit(cron_job(), jobs)] == ["s0", "s1", "f0"]
    none = cron_job(successfulJobsHistoryLimit=0, failedJobsHistoryLimit=0)
    assert len(beyond_history_limit(none, jobs)) == 7


def test_status_names_what_runs_and_when_it_last_went_well() -> None:
    jobs = sort_jobs([job("a"), job("s1", "Complete", "t1"), job("s2", "Complete", "t2")])
    new_status = status(cron_job(served="t0"), jobs)
    assert [each["name"] for each in new_status["active"]] == ["a"] and new_status[
        "lastSuccessfulTime"
    ] == "t2-end"
    assert new_status["lastScheduleTime"] == "t0"
    assert "active" not in status(cron_job(), sort_jobs([]))

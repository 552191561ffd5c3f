"""CronJobs: schedules, time zones, names, defaults."""

import copy

import pytest

from alcove.api.kinds.batch import STRATEGIES
from alcove.api.objects import Object

CRON_JOBS = STRATEGIES["cronjobs"]


def template(**pod: object) -> Object:
    return {"spec": {"containers": [{"name": "c", "image": "busybox"}], "restartPolicy": "Never", **pod}}


def cron_job(**spec: object) -> Object:
    template_of_job: Object = {"spec": {"template": template()}}
    given: Object = {"schedule": "*/5 * * * *", "jobTemplate": template_of_job, **spec}
    return {"metadata": {"name": "nightly", "namespace": "n"}, "spec": copy.deepcopy(given)}


TZ = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
CRON_CASES: list[tuple[Object, list[str]]] = [
    (cron_job(), []),
    (cron_job(schedule="@hourly", timeZone="Europe/Berlin"), []),
    (cron_job(schedule=""), ["spec.schedule: Required value"]),
    (cron_job(schedule="nonsense"), [
        'spec.schedule: Invalid value: "nonsense": expected exactly 5 fields, found 1: [nonsense]']),
    (cron_job(schedule="TZ=UTC * * * * *"), [f'spec.schedule: Invalid value: "TZ=UTC * * * * *": {TZ}']),
    (cron_job(timeZone=""), ['spec.timeZone: Invalid value: "": timeZone must be nil or non-empty string']),
    (cron_job(timeZone="Local"), [
        'spec.timeZone: Invalid value: "Local": timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones']),
    (cron_job(timeZone="Mars/Olympus"), ['spec.timeZone: Invalid value: "Mars/Olympus": unknown time zone Mars/Olympus']),
    (cron_job(timeZone="../etc"), ['spec.timeZone: Invalid value: "../etc": unknown time zone ../etc']),
    (cron_job(concurrencyPolicy="Queue"), [
        'spec.concurrencyPolicy: Unsupported value: "Queue": supported values: "Allow", "Forbid", "Replace"']),
    (cron_job(startingDeadlineSeconds=-1, successfulJobsHistoryLimit=-1, failedJobsHistoryLimit=-1), [
        f"spec.{field}: Invalid value: -1: must be greater than or equal to 0" for field in (
            "startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit")]),
    (cron_job(jobTemplate={"spec": {"template": template(), "selector": {}, "manualSelector": True}}), [
        "spec.jobTemplate.spec.selector: Invalid value: {}: `selector` will be auto-generated",
        'spec.jobTemplate.spec.manualSelector: Unsupported value: true: supported values: "nil", "false"']),
    (cron_job(jobTemplate={"spec": {"template": template(restartPolicy="Always"), "parallelism": -1}}), [
        "spec.jobTemplate.spec.parallelism: Invalid value: -1: must be greater than or equal to 0",
        'spec.jobTemplate.spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"']),
]  # fmt: skip


@pytest.mark.parametrize(("obj", "expected"), CRON_CASES)
def test_cron_job(obj: Object, expected: list[str]) -> None:
    CRON_JOBS.default(obj)
    assert [str(error) for error in CRON_JOBS.validate(obj)] == expected


def test_cron_job_leaves_room_for_its_jobs_names() -> None:
    obj = cron_job()
    assert not CRON_JOBS.validate_create(obj)
    obj["metadata"]["name"] = "x" * 53
    assert [str(error) for error in CRON_JOBS.validate_create(obj)] == [
        f'metadata.name: Invalid value: "{"x" * 53}": must be no more than 52 characters'
    ]


def test_cron_job_defaults() -> None:
    obj = cron_job()
    CRON_JOBS.default(obj)
    assert obj["spec"]["concurrencyPolicy"] == "Allow"
    assert obj["spec"]["suspend"] is False
    assert obj["spec"]["successfulJobsHistoryLimit"] == 3
    assert obj["spec"]["failedJobsHistoryLimit"] == 1
    assert set(obj["spec"]["jobTemplate"]["spec"]) == {"template"}
    assert obj["spec"]["jobTemplate"]["spec"]["template"]["spec"]["dnsPolicy"] == "ClusterFirst"

"""Cron jobs make jobs when they are due. `@every 1s` is due soon enough for a test."""

from alcove.api.objects import Object
from alcove.testing.server import Caller, wait_until

CRON_JOBS = "/apis/batch/v1/namespaces/default/cronjobs"
JOBS = "/apis/batch/v1/namespaces/default/jobs"


def made(name: str, **spec: object) -> Object:
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
    template = {"spec": {"template": {"spec": pod}}}
    return {"metadata": {"name": name}, "spec": {"schedule": "@every 1s", "jobTemplate": template, **spec}}


def jobs(caller: Caller) -> list[Object]:
    return caller.get(JOBS).json["items"]  # type: ignore[no-any-return]


def status(caller: Caller, name: str) -> Object:
    return caller.get(f"{CRON_JOBS}/{name}").json.get("status") or {}


def test_a_job_is_made_when_it_is_due(tenant_admin: Caller) -> None:
    assert tenant_admin.post(CRON_JOBS, made("tick", concurrencyPolicy="Forbid")).status == 201
    (job,) = wait_until(lambda: jobs(tenant_admin))
    assert job["metadata"]["ownerReferences"][0]["name"] == "tick"
    assert job["metadata"]["name"].startswith("tick-")
    wait_until(lambda: status(tenant_admin, "tick").get("active"))
    assert status(tenant_admin, "tick")["lastScheduleTime"]
    wait_until(
        lambda: (
            "JobAlreadyActive" in tenant_admin.kubectl("get", "events", "-o", "jsonpath={.items[*].reason}")
        )
    )
    assert len(jobs(tenant_admin)) == 1, "the one before is still running"


def test_a_suspended_one_makes_none(tenant_admin: Caller) -> None:
    tenant_admin.post(CRON_JOBS, made("still", suspend=True))
    tenant_admin.post(CRON_JOBS, made("tick"))
    wait_until(lambda: jobs(tenant_admin))
    assert {job["metadata"]["ownerReferences"][0]["name"] for job in jobs(tenant_admin)} == {"tick"}


def test_what_it_made_goes_with_it(tenant_admin: Caller) -> None:
    tenant_admin.post(CRON_JOBS, made("tick"))
    wait_until(lambda: jobs(tenant_admin))
    tenant_admin.kubectl("delete", "cronjob", "tick")
    wait_until(lambda: not jobs(tenant_admin))

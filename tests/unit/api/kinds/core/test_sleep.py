"""`spec.sleep` of tenants: what is accepted, and the condition that others read."""

from typing import Any

import pytest

from alcove.api.kinds.core.sleep import check_sleep, is_asleep
from alcove.api.kinds.core.tenants import STRATEGY


def messages(name: str, sleep: Any) -> list[str]:
    return [str(error) for error in check_sleep({"metadata": {"name": name}, "spec": {"sleep": sleep}})]


@pytest.mark.parametrize(
    ("sleep", "expected"),
    [
        ({}, []),
        ({"asleep": True, "wakeTime": "2026-01-01T00:00:00Z"}, []),
        ({"afterInactivity": "1h30m", "schedule": {"sleep": "0 20 * * *", "wake": "0 6 * * *"}}, []),
        ({"schedule": {"sleep": "@daily", "timeZone": "Europe/Berlin"}}, []),
        (
            {"afterInactivity": "59s"},
            ['spec.sleep.afterInactivity: Invalid value: "59s": must be at least 60s'],
        ),
        (
            {"afterInactivity": "-2h"},
            ['spec.sleep.afterInactivity: Invalid value: "-2h": must be at least 60s'],
        ),
        (
            {"afterInactivity": "soon"},
            ['spec.sleep.afterInactivity: Invalid value: "soon": time: invalid duration "soon"'],
        ),
        ({"schedule": {}}, ["spec.sleep.schedule.sleep: Required value"]),
        ({"schedule": {"wake": "0 6 * * *"}}, ["spec.sleep.schedule.sleep: Required value"]),
        (
            {"schedule": {"sleep": "@every 2h"}},
            [
                'spec.sleep.schedule.sleep: Invalid value: "@every 2h": must name times of day: @every has none'
            ],
        ),
        (
            {"schedule": {"sleep": "0 20 * * *", "wake": "x"}},
            ['spec.sleep.schedule.wake: Invalid value: "x": expected exactly 5 fields, found 1: [x]'],
        ),
        (
            {"schedule": {"sleep": "0 20 * * *", "timeZone": "../etc/passwd"}},
            ['spec.sleep.schedule.timeZone: Invalid value: "../etc/passwd": unknown time zone ../etc/passwd'],
        ),
    ],
)
def test_an_invalid_field_is_named(sleep: Any, expected: list[str]) -> None:
    assert messages("acme", sleep) == expected


def test_the_system_tenant_never_sleeps() -> None:
    assert messages("system", {"asleep": True}) == ["spec.sleep: Forbidden: the system tenant never sleeps"]


def test_a_tenant_with_an_invalid_schedule_is_refused() -> None:
    tenant = {"metadata": {"name": "acme"}, "spec": {"sleep": {"schedule": {"sleep": "never"}}}}
    STRATEGY.default(tenant)
    assert any("spec.sleep.schedule.sleep" in str(error) for error in STRATEGY.validate(tenant))


def test_only_the_condition_says_that_a_tenant_is_asleep() -> None:
    asleep = {"type": "Asleep", "status": "True"}
    assert is_asleep({"status": {"conditions": [asleep]}})
    assert not is_asleep({"status": {"conditions": [{**asleep, "status": "False"}]}})
    assert not is_asleep({"spec": {"sleep": {"asleep": True}}})

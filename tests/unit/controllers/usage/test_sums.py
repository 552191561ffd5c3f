"""Sums of reports, by table."""

from alcove.api.objects import Object
from alcove.api.usage import HOUR_SECONDS, UsageAmounts, parse_hour
from alcove.controllers.usage import sums

H23, H0 = "2026-11-16T23:00:00Z", "2026-11-17T00:00:00Z"
HOUR = parse_hour(H23)


def report(name: str, hours: Object, settled: str = "") -> Object:
    return {"metadata": {"name": name}, "spec": {"hours": hours}, "status": {"settledThrough": settled}}


def test_reports_are_added_up_by_tenant_and_day() -> None:
    reports = [
        report("n1", {H23: {"a": {"podSeconds": 1}}, H0: {"a": {"podSeconds": 2}}}),
        report("n2", {H23: {"a": {"podSeconds": 10}, "b": {"podSeconds": 20}}}),
        report("bad", {"yesterday": {"a": {"podSeconds": 10}}}),
    ]
    assert sums.sum_up(reports, -1) == {
        ("a", "2026-11-16"): {HOUR: UsageAmounts(pod_seconds=11)},
        ("b", "2026-11-16"): {HOUR: UsageAmounts(pod_seconds=20)},
        ("a", "2026-11-17"): {HOUR + 1: UsageAmounts(pod_seconds=2)},
    }
    assert set(sums.sum_up(reports, HOUR)) == {("a", "2026-11-17")}, "settled hours are not computed again"


def test_a_record_keeps_its_other_hours() -> None:
    record = sums.new_record("a", "2026-11-16")
    first = sums.with_hours(record, {HOUR - 1: UsageAmounts(pod_seconds=1)})
    second = sums.with_hours(first, {HOUR: UsageAmounts(pod_seconds=2)})
    assert second["spec"]["hours"] == {"2026-11-16T22:00:00Z": {"podSeconds": 1}, H23: {"podSeconds": 2}}
    assert second["metadata"]["name"] == "a.2026-11-16"
    totals = sums.day_totals([second, sums.new_record("b", "2026-11-15")], "2026-11-16")
    assert totals == {"a": UsageAmounts(pod_seconds=3)}


def test_an_hour_is_due_a_quarter_of_an_hour_after_its_end() -> None:
    end = (HOUR + 1) * HOUR_SECONDS
    assert sums.last_due(end + 899) == HOUR - 1
    assert sums.last_due(end + 900) == HOUR


def test_reporters_are_told_once_and_their_reports_deleted_when_they_are_gone() -> None:
    told, untold = report("n1", {H23: {}}, H23), report("n1", {H23: {}})
    assert sums.is_unsettled(untold, HOUR) and not sums.is_unsettled(told, HOUR)
    assert not sums.is_unsettled(report("n1", {H0: {}}), HOUR)
    assert not sums.is_finished(told, HOUR, {"n1"}), "the node may be slow"
    assert not sums.is_finished(told, HOUR, set()), "it was told a moment ago"
    assert sums.is_finished(told, HOUR + 1, set())
    assert sums.is_finished(report("apiserver:1", {H23: {}}, H23), HOUR + 1, {"apiserver:1"})
    assert not sums.is_finished(report("apiserver:1", {H0: {}}, H23), HOUR + 1, set())


def test_records_are_kept_for_the_retention() -> None:
    records = [{"metadata": {"name": name}} for name in ("a.2026-11-14", "a.b.2026-11-15", "a.2026-11-16")]
    assert list(sums.expired(records, HOUR * HOUR_SECONDS, 1, HOUR)) == ["a.2026-11-14"]


def test_empty_records_are_kept_until_their_day_is_settled() -> None:
    record = sums.new_record("a", "2026-11-16")
    filled = sums.with_hours(record, {HOUR: UsageAmounts()})
    assert list(sums.expired([record], HOUR * HOUR_SECONDS, 30, HOUR - 1)) == []
    assert list(sums.expired([record, filled], HOUR * HOUR_SECONDS, 30, HOUR)) == [record["metadata"]["name"]]

"""events.k8s.io events: strict where core events are lenient."""

import pytest

from alcove.api.kinds.events import STRATEGIES
from alcove.api.objects import Object

STRATEGY = STRATEGIES["events"]


def event(**fields: object) -> Object:
    return {
        "apiVersion": "events.k8s.io/v1",
        "metadata": {"name": "e", "namespace": "n"},
        "eventTime": "2024-05-01T10:00:00.000001Z",
        "reportingController": "example.com/c",
        "reportingInstance": "c-1",
        "action": "Did",
        "reason": "Because",
        "type": "Normal",
        "regarding": {"kind": "Pod", "namespace": "n", "name": "p"},
        **fields,
    }


CASES: list[tuple[Object, list[str]]] = [
    (event(), []),
    (event(series={"count": 2, "lastObservedTime": "2024-05-01T10:00:00.000001Z"}), []),
    (event(series={"count": 1}), [
        'series.count: Invalid value: "": should be at least 2',
        "series.lastObservedTime: Required value"]),
    (event(eventTime=None, type="Odd"), [
        "eventTime: Required value",
        'type: Invalid value: "": has invalid value: Odd']),
    (event(regarding={}), ['involvedObject.namespace: Invalid value: "": does not match event.namespace']),
    (event(regarding={}, metadata={"namespace": "default"}), []),
    (event(reportingController="", reportingInstance="", action="", reason=""), [
        "reportingController: Required value",
        "reportingInstance: Required value",
        "action: Required value",
        "reason: Required value"]),
    (event(action="x" * 129, note="x" * 1025), [
        'action: Invalid value: "": can have at most 128 characters',
        'message: Invalid value: "": can have at most 1024 characters']),
    (event(deprecatedCount=1, deprecatedSource={"host": "h"}), [
        'count: Invalid value: "": needs to be unset',
        'source: Invalid value: "": needs to be unset']),
]  # fmt: skip


@pytest.mark.parametrize(("obj", "expected"), CASES)
def test_validate(obj: Object, expected: list[str]) -> None:
    assert [str(error) for error in (*STRATEGY.validate(obj), *STRATEGY.validate_create(obj))] == expected


def test_only_the_series_goes_on() -> None:
    series = {"count": 2, "lastObservedTime": "2024-05-01T10:00:00.000001Z"}
    assert not STRATEGY.validate_update(event(series=series), event())
    assert not STRATEGY.validate_update(event(eventTime="2024-05-01T12:00:00.000001+02:00"), event())
    new = event(note="other", reportingController="other", eventTime="2024-05-01T10:00:01Z")
    assert [str(error) for error in STRATEGY.validate_update(new, event())] == [
        'message: Invalid value: "other": field is immutable',
        'reportingController: Invalid value: "other": field is immutable',
        'eventTime: Invalid value: "2024-05-01T10:00:01Z": field is immutable',
    ]


def test_fields() -> None:
    assert STRATEGY.fields["regarding.name"](event()) == "p"
    assert STRATEGY.fields["reportingController"](event()) == "example.com/c"
    assert STRATEGY.fields["regarding.uid"]({}) == ""
    stored = {"involvedObject": {"name": "p"}, "reportingComponent": "c", "reason": "r"}
    assert [
        STRATEGY.fields[name](stored) for name in ("regarding.name", "reportingController", "reason")
    ] == [
        "p",
        "c",
        "r",
    ]

"""events.k8s.io: events in the newer form. They are stored as core events.

Validation runs on this group's form, but errors have the core names of fields, as in Kubernetes.
"""

from collections.abc import Callable

from alcove.api import meta, names
from alcove.api.fields import FieldError, invalid, required
from alcove.api.kind import Strategy
from alcove.api.kinds.checks import IMMUTABLE, named_required
from alcove.api.objects import Object, namespace
from alcove.api.validation import same

TEXT_LENGTH_MAX = 128
NOTE_LENGTH_MAX = 1024

_CORE_NAMES = {
    "regarding": "involvedObject",
    "note": "message",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}


def validate_event(event: Object) -> list[FieldError]:
    return _namespace(event) + _texts(event)


def validate_new_event(event: Object) -> list[FieldError]:
    errors = _series(event)
    if not event.get("eventTime"):
        errors.append(required("eventTime"))
    if event.get("type") not in ("Normal", "Warning"):
        errors.append(invalid("type", "", f"has invalid value: {event.get('type', '')}"))
    source = event.get("deprecatedSource") or {}
    unset = {
        "firstTimestamp": event.get("deprecatedFirstTimestamp"),
        "lastTimestamp": event.get("deprecatedLastTimestamp"),
        "count": event.get("deprecatedCount"),
        "source": source.get("component") or source.get("host"),
    }
    return errors + [invalid(field, "", "needs to be unset") for field, value in unset.items() if value]


def _namespace(event: Object) -> list[FieldError]:
    regarding = (event.get("regarding") or {}).get("namespace", "")
    if regarding or namespace(event) in ("default", "kube-system"):
        return []
    return [invalid("involvedObject.namespace", regarding, "does not match event.namespace")]


def _texts(event: Object) -> list[FieldError]:
    errors = named_required(event.get("reportingController", ""), names.qualified_name, "reportingController")
    for field in ("reportingInstance", "action", "reason"):
        text = event.get(field, "")
        if not text:
            errors.append(required(field))
        errors += _length(text, TEXT_LENGTH_MAX, field)
    return errors + _length(event.get("note", ""), NOTE_LENGTH_MAX, "message")


def _length(text: str, maximum: int, field: str) -> list[FieldError]:
    too_long = len(text.encode()) > maximum
    return [invalid(field, "", f"can have at most {maximum} characters")] if too_long else []


def _series(event: Object) -> list[FieldError]:
    series = event.get("series")
    if series is None:
        return []
    errors: list[FieldError] = []
    if series.get("count", 0) < 2:
        errors.append(invalid("series.count", "", "should be at least 2"))
    if not series.get("lastObservedTime"):
        errors.append(required("series.lastObservedTime"))
    return errors


_FIXED = (
    "regarding",
    "reason",
    "note",
    "deprecatedSource",
    "deprecatedFirstTimestamp",
    "deprecatedLastTimestamp",
    "deprecatedCount",
    "type",
    "action",
    "related",
    "reportingController",
    "reportingInstance",
)


def validate_event_update(new: Object, old: Object) -> list[FieldError]:
    """Only the series of an event may change."""
    errors = [
        invalid(_CORE_NAMES.get(field, field), new.get(field), IMMUTABLE)
        for field in _FIXED
        if not same({field: new.get(field)}, {field: old.get(field)})
    ]
    if not same({"series": new.get("series")}, {"series": old.get("series")}):
        errors += _series(new)
    if _microseconds(new) != _microseconds(old):
        errors.append(invalid("eventTime", new.get("eventTime"), IMMUTABLE))
    return errors


def _microseconds(event: Object) -> float | None:
    """Return the event's time in epoch seconds; clients may write it with fewer digits or in another zone."""
    text = event.get("eventTime")
    try:
        return meta.parse_time(text) if text else None
    except ValueError:
        return None


# Field selectors are evaluated on stored events, so the core names are supported as well.


def _regarding(field: str) -> Callable[[Object], str]:
    return lambda event: str((event.get("regarding") or event.get("involvedObject") or {}).get(field, ""))


def _text(field: str) -> Callable[[Object], str]:
    return lambda event: str(event.get(field, ""))


def _reporter(event: Object) -> str:
    return str(event.get("reportingController") or event.get("reportingComponent") or "")


STRATEGIES: dict[str, Strategy] = {
    "events": Strategy(
        validate=validate_event,
        validate_create=validate_new_event,
        validate_update=validate_event_update,
        fields={
            **{
                f"regarding.{field}": _regarding(field)
                for field in (
                    "kind",
                    "namespace",
                    "name",
                    "uid",
                    "apiVersion",
                    "resourceVersion",
                    "fieldPath",
                )
            },
            **{field: _text(field) for field in ("reason", "type")},
            "reportingController": _reporter,
        },
        create_on_update=True,
    ),
}

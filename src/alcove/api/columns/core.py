"""Columns of small core kinds: namespaces, config maps, secrets, service accounts, quotas, events."""

from alcove.api import objects
from alcove.api.columns.base import AGE, NAME, UNKNOWN, WIDE, age_of, at, counted
from alcove.api.kind import PrinterColumn
from alcove.api.objects import Object

NAMESPACE = (
    NAME,
    PrinterColumn("Status", at("status", "phase"), description="Phase: Active or Terminating."),
    AGE,
)

SECRET = (
    NAME,
    PrinterColumn("Type", at("type"), description="Type of the secret."),
    counted("Data", "Number of entries.", "data"),
    AGE,
)


def _entries(obj: Object, _now: float) -> int:
    return len(obj.get("data") or ()) + len(obj.get("binaryData") or ())


CONFIG_MAP = (NAME, PrinterColumn("Data", _entries, "integer", description="Number of entries."), AGE)

SERVICE_ACCOUNT = (NAME, counted("Secrets", "Number of secrets.", "secrets"), AGE)


def _usage(obj: Object, is_limit: bool) -> str:
    hard = objects.get(obj, "status", "hard", default={})
    used = objects.get(obj, "status", "used", default={})
    names = sorted(name for name in hard if name.startswith("limits.") == is_limit)
    return ", ".join(f"{name}: {used.get(name, '0')}/{hard[name]}" for name in names)


RESOURCE_QUOTA = (
    NAME,
    PrinterColumn("Request", lambda obj, _now: _usage(obj, False), description="Used and allowed requests."),
    PrinterColumn("Limit", lambda obj, _now: _usage(obj, True), description="Used and allowed limits."),
    AGE,
)


def _first_seen(event: Object, now: float) -> str:
    first = event.get("firstTimestamp") or event.get("deprecatedFirstTimestamp") or event.get("eventTime")
    return age_of(first, now)


def _last_seen(event: Object, now: float) -> str:
    series = objects.get(event, "series", "lastObservedTime")
    last = series or event.get("lastTimestamp") or event.get("deprecatedLastTimestamp")
    return age_of(last, now) if last else _first_seen(event, now)


def _times(event: Object, _now: float) -> int:
    series = objects.get(event, "series", "count")
    return series or event.get("count") or event.get("deprecatedCount") or 1


def _about(event: Object) -> Object:
    return event.get("involvedObject") or event.get("regarding") or {}


def _object(event: Object, _now: float) -> str:
    about = _about(event)
    kind = about.get("kind", "").lower()
    return f"{kind}/{about['name']}" if about.get("name") else kind


def _source(event: Object, _now: float) -> str:
    source = event.get("source") or event.get("deprecatedSource") or {}
    component = (
        source.get("component") or event.get("reportingComponent") or event.get("reportingController") or ""
    )
    host = source.get("host") or event.get("reportingInstance") or ""
    return ", ".join(filter(None, (component, host)))


def _message(event: Object, _now: float) -> str:
    return (event.get("message") or event.get("note") or "").strip()


EVENT = (
    PrinterColumn("Last Seen", _last_seen, description="Time since the last occurrence."),
    PrinterColumn("Type", at("type"), description="Type: Normal or Warning."),
    PrinterColumn("Reason", at("reason"), description="Short reason of the event."),
    PrinterColumn("Object", _object, description="Object that the event is about."),
    PrinterColumn(
        "Subobject",
        lambda event, _now: _about(event).get("fieldPath", ""),
        description="Part of the object.",
        priority=WIDE,
    ),
    PrinterColumn("Source", _source, description="Component that reported the event.", priority=WIDE),
    PrinterColumn("Message", _message, description="Description of the event."),
    PrinterColumn("First Seen", _first_seen, description="Time since the first occurrence.", priority=WIDE),
    PrinterColumn("Count", _times, "integer", description="Number of occurrences.", priority=WIDE),
    PrinterColumn(
        "Name",
        at("metadata", "name", default=UNKNOWN),
        format="name",
        description="Name of the event.",
        priority=WIDE,
    ),
)

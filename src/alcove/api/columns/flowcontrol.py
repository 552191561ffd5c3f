"""Columns of flow schemas and priority levels."""

from alcove.api import objects
from alcove.api.columns.base import AGE, NAME, NONE, at
from alcove.api.kind import PrinterColumn
from alcove.api.objects import Object


def _is_dangling(obj: Object, _now: float) -> str:
    conditions = objects.get(obj, "status", "conditions", default=())
    found = (each.get("status", "") for each in conditions if each.get("type") == "Dangling")
    return next(found, "?")


FLOW_SCHEMA = (
    NAME,
    PrinterColumn(
        "PriorityLevel",
        at("spec", "priorityLevelConfiguration", "name"),
        description="Priority level of the requests.",
    ),
    PrinterColumn(
        "MatchingPrecedence",
        at("spec", "matchingPrecedence", default=0),
        description="Of several schemas that match, the one with the lowest number is chosen.",
    ),
    PrinterColumn(
        "DistinguisherMethod",
        at("spec", "distinguisherMethod", "type", default=NONE),
        description="How requests are divided into flows.",
    ),
    AGE,
    PrinterColumn("MissingPL", _is_dangling, description="Whether the priority level does not exist."),
)


def _queuing(name: str, field: str, description: str) -> PrinterColumn:
    path = ("spec", "limited", "limitResponse", "queuing", field)
    return PrinterColumn(name, at(*path, default=NONE), description=description)


PRIORITY_LEVEL = (
    NAME,
    PrinterColumn("Type", at("spec", "type"), description="Exempt or Limited."),
    PrinterColumn(
        "NominalConcurrencyShares",
        at("spec", "limited", "nominalConcurrencyShares", default=NONE),
        description="The level's part of the tenant's seats, relative to the other levels.",
    ),
    _queuing("Queues", "queues", "Number of queues."),
    _queuing("HandSize", "handSize", "Number of queues that a flow may use."),
    _queuing("QueueLengthLimit", "queueLengthLimit", "Number of requests in a queue."),
    AGE,
)

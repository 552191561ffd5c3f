"""Columns of workload controllers: deployments, other sets of pods, jobs."""

from typing import Any

from alcove.api import objects
from alcove.api.columns import duration
from alcove.api.columns.base import (
    AGE,
    NAME,
    NONE,
    UNSET,
    WIDE,
    Value,
    at,
    counted,
    integer,
    joined,
    show_labels,
    show_selector,
    since,
)
from alcove.api.kind import PrinterColumn
from alcove.api.meta import parse_time
from alcove.api.objects import Object


def _each_container(field: str, *path: str) -> Value:
    def value(obj: Object, _now: float) -> str:
        return joined(str(each.get(field, "")) for each in objects.get(obj, *path, "containers", default=()))

    return value


def _containers(*path: str) -> tuple[PrinterColumn, PrinterColumn]:
    names = "Names of the containers in the template."
    images = "Images of the containers in the template."
    return (
        PrinterColumn("Containers", _each_container("name", *path), description=names, priority=WIDE),
        PrinterColumn("Images", _each_container("image", *path), description=images, priority=WIDE),
    )


def _selector_at(*path: str) -> Value:
    return lambda obj, _now: show_selector(objects.get(obj, *path))


def _labels_at(*path: str) -> Value:
    return lambda obj, _now: show_labels(objects.get(obj, *path))


def _selector(value: Value) -> PrinterColumn:
    return PrinterColumn("Selector", value, description="Selector of the pods.", priority=WIDE)


_TEMPLATE = _containers("spec", "template", "spec")
_SELECTOR = _selector(_selector_at("spec", "selector"))


def _ready(obj: Object, _now: float) -> str:
    return f"{objects.get(obj, 'status', 'readyReplicas', default=0)}/{objects.get(obj, 'spec', 'replicas', default=0)}"


DEPLOYMENT = (
    NAME,
    PrinterColumn("Ready", _ready, description="Ready pods of the desired number."),
    integer("Up-to-date", "Pods with the newest template.", "status", "updatedReplicas"),
    integer("Available", "Pods ready for at least minReadySeconds.", "status", "availableReplicas"),
    AGE,
    *_TEMPLATE,
    _SELECTOR,
)

STATEFUL_SET = (
    NAME,
    PrinterColumn("Ready", _ready, description="Ready pods of the desired number."),
    AGE,
    *_TEMPLATE,
)

_REPLICAS = (
    NAME,
    integer("Desired", "Desired number of pods.", "spec", "replicas"),
    integer("Current", "Current number of pods.", "status", "replicas"),
    integer("Ready", "Ready pods.", "status", "readyReplicas"),
    AGE,
    *_TEMPLATE,
)
REPLICA_SET = (*_REPLICAS, _SELECTOR)
REPLICATION_CONTROLLER = (*_REPLICAS, _selector(_labels_at("spec", "selector")))

DAEMON_SET = (
    NAME,
    integer("Desired", "Nodes that should run the pod.", "status", "desiredNumberScheduled"),
    integer("Current", "Nodes that run the pod.", "status", "currentNumberScheduled"),
    integer("Ready", "Nodes where the pod is ready.", "status", "numberReady"),
    integer("Up-to-date", "Nodes with the newest template.", "status", "updatedNumberScheduled"),
    integer("Available", "Nodes where the pod is available.", "status", "numberAvailable"),
    PrinterColumn(
        "Node Selector",
        _labels_at("spec", "template", "spec", "nodeSelector"),
        description="Labels of the nodes that should run the pod.",
    ),
    AGE,
    *_TEMPLATE,
    _SELECTOR,
)


def _owner(obj: Object, _now: float) -> str:
    for owner in objects.get(obj, "metadata", "ownerReferences", default=()):
        if owner.get("controller"):
            group = owner.get("apiVersion", "").rpartition("/")[0]
            kind = owner.get("kind", "").lower()
            return f"{kind}.{group}/{owner.get('name')}" if group else f"{kind}/{owner.get('name')}"
    return NONE


CONTROLLER_REVISION = (
    NAME,
    PrinterColumn("Controller", _owner, description="Controller of the revision."),
    integer("Revision", "Number of the revision.", "revision"),
    AGE,
)

POD_TEMPLATE = (
    NAME,
    *(
        PrinterColumn(each.name, each.value, description=each.description)
        for each in _containers("template", "spec")
    ),
    PrinterColumn(
        "Pod Labels",
        _labels_at("template", "metadata", "labels"),
        description="Labels of the template's pods.",
    ),
)


def _job_status(job: Object, _now: float) -> str:
    conditions = objects.get(job, "status", "conditions", default=())
    true = {each.get("type") for each in conditions if each.get("status") == "True"}
    for kind in ("Complete", "Failed"):
        if kind in true:
            return kind
    if objects.get(job, "metadata", "deletionTimestamp"):
        return "Terminating"
    return next(
        (kind for kind in ("Suspended", "FailureTarget", "SuccessCriteriaMet") if kind in true), "Running"
    )


def _completions(job: Object, _now: float) -> str:
    succeeded = objects.get(job, "status", "succeeded", default=0)
    completions = objects.get(job, "spec", "completions")
    if completions is not None:
        return f"{succeeded}/{completions}"
    parallelism = objects.get(job, "spec", "parallelism", default=0)
    return f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"


def _job_duration(job: Object, now: float) -> str:
    start = objects.get(job, "status", "startTime")
    if not start:
        return ""
    end = objects.get(job, "status", "completionTime") or _failed_at(job)
    return duration.human((parse_time(end) if end else now) - parse_time(start))


def _failed_at(job: Object) -> Any:
    conditions = objects.get(job, "status", "conditions", default=())
    for condition in conditions:
        if condition.get("type") == "Failed" and condition.get("status") == "True":
            return condition.get("lastTransitionTime")
    return None


JOB = (
    NAME,
    PrinterColumn("Status", _job_status, description="Status of the job."),
    PrinterColumn("Completions", _completions, description="Succeeded pods of the desired completions."),
    PrinterColumn("Duration", _job_duration, description="Duration of the job."),
    AGE,
    *_TEMPLATE,
    _SELECTOR,
)


def _suspend(obj: Object, _now: float) -> str:
    value = objects.get(obj, "spec", "suspend")
    return UNSET if value is None else str(value)


CRON_JOB = (
    NAME,
    PrinterColumn("Schedule", at("spec", "schedule"), description="Schedule in cron format."),
    PrinterColumn("Timezone", at("spec", "timeZone", default=NONE), description="Time zone of the schedule."),
    PrinterColumn("Suspend", _suspend, description="Whether the schedule is suspended."),
    counted("Active", "Number of running jobs.", "status", "active"),
    PrinterColumn(
        "Last Schedule",
        since("status", "lastScheduleTime", default=NONE),
        description="Time since the last job was scheduled.",
    ),
    AGE,
    *_containers("spec", "jobTemplate", "spec", "template", "spec"),
    _selector(_selector_at("spec", "jobTemplate", "spec", "selector")),
)

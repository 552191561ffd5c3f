"""What a job does next: which pods to make, which to delete. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from alcove.api.objects import Object
from alcove.controllers.jobs import indexing
from alcove.controllers.jobs.accounting import Account, is_tracked
from alcove.controllers.jobs.failures import has_failed, replaces_failed_only, wait_seconds
from alcove.controllers.workloads import pods
from alcove.controllers.workloads.making import BURST_MAX
from alcove.controllers.workloads.templates import pod_of


class Wanted(Struct, frozen=True):
    """A pod to make; of an index, and how often that has failed, if the job has indexes."""

    index: int | None = None
    failures: int = 0


class Plan(Struct, frozen=True):
    create: tuple[Wanted, ...] = ()
    delete: tuple[Object, ...] = ()
    after_seconds: float | None = None
    """When pods may be made that may not be made now."""


def active_pods(job: Object, owned: Sequence[Object]) -> list[Object]:
    return [pod for pod in owned if pods.is_active(pod) and not has_failed(job, pod)]


def plan(job: Object, owned: Sequence[Object], account: Account, now: float) -> Plan:
    """For a job that goes on: neither over, nor suspended."""
    active = active_pods(job, owned)
    surplus = _misplaced(job, active, account)
    active = [pod for pod in active if not any(pod is other for other in surplus)]
    wanted = _wanted_active(job, len(active), account)
    if len(active) > wanted:
        ranked = sorted(active, key=pods.first_to_delete(active, now))
        return Plan(delete=(*surplus, *ranked[: len(active) - wanted]))
    ending = [pod for pod in owned if pods.is_ending(pod) and not pods.is_finished(pod)]
    held = len(ending) if replaces_failed_only(job) else 0
    missing = min(wanted - len(active) - held, BURST_MAX)
    if missing <= 0:
        return Plan(delete=tuple(surplus))
    # A pod that we deleted ourselves ends without having failed.
    failed = [pod for pod in owned if has_failed(job, pod) and (pods.is_finished(pod) or is_tracked(pod))]
    waits = wait_seconds(failed, [pod for pod in owned if pods.phase(pod) == "Succeeded"], now)
    if waits > 0 and not indexing.is_indexed(job):
        return Plan(delete=tuple(surplus), after_seconds=waits)
    create, waits = _to_create(job, owned, [*active, *(ending if held else ())], account, missing, now)
    return Plan(tuple(create), tuple(surplus), waits or None)


def _wanted_active(job: Object, active: int, account: Account) -> int:
    parallelism: int = job["spec"].get("parallelism", 1)
    completions: int | None = job["spec"].get("completions")
    if completions is None:
        return min(active, parallelism) if account.succeeded > 0 else parallelism
    left = completions - account.succeeded - len(account.failed_indexes)
    return max(0, min(left, parallelism))


def _misplaced(job: Object, active: Sequence[Object], account: Account) -> list[Object]:
    """Pods of an index that is done, does not exist, or is another pod's already."""
    if not indexing.is_indexed(job):
        return []
    taken = account.completed_indexes | account.failed_indexes
    result = []
    for pod in sorted(active, key=lambda pod: pod["metadata"].get("creationTimestamp", "")):
        index = indexing.index_of(pod)
        if index is None or index in taken or index >= job["spec"]["completions"]:
            result.append(pod)
        else:
            taken = taken | {index}
    return result


def _to_create(
    job: Object, owned: Sequence[Object], busy: Sequence[Object], account: Account, missing: int, now: float
) -> tuple[list[Wanted], float]:
    if not indexing.is_indexed(job):
        return [Wanted()] * missing, 0.0
    taken = account.completed_indexes | account.failed_indexes
    taken = taken | {index for pod in busy if (index := indexing.index_of(pod)) is not None}
    failed: dict[int, list[Object]] = {}
    for pod in owned:
        if has_failed(job, pod) and (index := indexing.index_of(pod)) is not None:
            failed.setdefault(index, []).append(pod)
    result: list[Wanted] = []
    waits = 0.0
    for index in range(job["spec"]["completions"]):
        if len(result) == missing:
            break
        if index in taken:
            continue
        before = failed.get(index, [])
        # Each index waits for its own failures only.
        wait = wait_seconds(before, (), now)
        if wait > 0:
            waits = min(waits, wait) if waits else wait
            continue
        result.append(Wanted(index, max((indexing.failures_before(pod) + 1 for pod in before), default=0)))
    return result, waits


def pod(job: Object, owner: Object, wanted: Wanted, finalizer: str) -> Object:
    """The pod to create."""
    made = pod_of(job["spec"]["template"], owner)
    metadata, name = made["metadata"], job["metadata"]["name"]
    metadata["finalizers"] = [*(metadata.get("finalizers") or ()), finalizer]
    metadata["generateName"] = f"{name}-"
    if wanted.index is not None:
        _give_index(job, made, wanted)
    return made


def _give_index(job: Object, made: Object, wanted: Wanted) -> None:
    metadata, spec, name = made["metadata"], made["spec"], job["metadata"]["name"]
    metadata["generateName"] = f"{name}-{wanted.index}-"
    metadata["annotations"] = {**(metadata.get("annotations") or {}), indexing.INDEX: str(wanted.index)}
    metadata["labels"] = {**(metadata.get("labels") or {}), indexing.INDEX: str(wanted.index)}
    if "backoffLimitPerIndex" in job["spec"]:
        metadata["annotations"][indexing.FAILURES] = str(wanted.failures)
    spec["hostname"] = f"{name}-{wanted.index}"
    for field in ("containers", "initContainers"):
        if field in spec:
            spec[field] = [_with_index(container) for container in spec[field]]


def _with_index(container: Object) -> Object:
    environment = container.get("env") or []
    if any(each.get("name") == "JOB_COMPLETION_INDEX" for each in environment):
        return container
    path = f"metadata.labels['{indexing.INDEX}']"
    entry = {"name": "JOB_COMPLETION_INDEX", "valueFrom": {"fieldRef": {"fieldPath": path}}}
    return {**container, "env": [*environment, entry]}

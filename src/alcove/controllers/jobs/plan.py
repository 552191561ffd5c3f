"""What a job does next: which pods to make, which to delete. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from alcove.api.objects import Object
from alcove.controllers.jobs import completion_indexes
from alcove.controllers.jobs.accounting import JobAccount, is_tracked
from alcove.controllers.jobs.failures import has_failed, replaces_failed_only, wait_seconds
from alcove.controllers.workloads import pods
from alcove.controllers.workloads.creation import BURST_MAX
from alcove.controllers.workloads.templates import pod_of


class DesiredPod(Struct, frozen=True):
    """A pod to make; of an index, and how often that has failed, if the job has indexes."""

    index: int | None = None
    failures: int = 0


class JobPlan(Struct, frozen=True):
    create: tuple[DesiredPod, ...] = ()
    delete: tuple[Object, ...] = ()
    after_seconds: float | None = None
    """When pods may be made that may not be made now."""


def active_pods(job: Object, owned: Sequence[Object]) -> list[Object]:
    return [pod for pod in owned if pods.is_active(pod) and not has_failed(job, pod)]


def plan(job: Object, owned: Sequence[Object], account: JobAccount, now: float) -> JobPlan:
    """For a job that goes on: neither over, nor suspended."""
    active = active_pods(job, owned)
    surplus = _misplaced(job, active, account)
    active = [pod for pod in active if not any(pod is other for other in surplus)]
    desired = _wanted_active(job, len(active), account)
    if len(active) > desired:
        ranked = sorted(active, key=pods.first_to_delete(active, now))
        return JobPlan(delete=(*surplus, *ranked[: len(active) - desired]))
    ending = [pod for pod in owned if pods.is_ending(pod) and not pods.is_finished(pod)]
    held = len(ending) if replaces_failed_only(job) else 0
    missing = min(desired - len(active) - held, BURST_MAX)
    if missing <= 0:
        return JobPlan(delete=tuple(surplus))
    # A pod that we deleted ourselves ends without having failed.
    failed = [pod for pod in owned if has_failed(job, pod) and (pods.is_finished(pod) or is_tracked(pod))]
    waits = wait_seconds(failed, [pod for pod in owned if pods.phase(pod) == "Succeeded"], now)
    if waits > 0 and not completion_indexes.is_indexed(job):
        return JobPlan(delete=tuple(surplus), after_seconds=waits)
    create, waits = _to_create(job, owned, [*active, *(ending if held else ())], account, missing, now)
    return JobPlan(tuple(create), tuple(surplus), waits or None)


def _wanted_active(job: Object, active: int, account: JobAccount) -> int:
    parallelism: int = job["spec"].get("parallelism", 1)
    completions: int | None = job["spec"].get("completions")
    if completions is None:
        return min(active, parallelism) if account.succeeded > 0 else parallelism
    left = completions - account.succeeded - len(account.failed_indexes)
    return max(0, min(left, parallelism))


def _misplaced(job: Object, active: Sequence[Object], account: JobAccount) -> list[Object]:
    """Pods of an index that is done, does not exist, or is another pod's already."""
    if not completion_indexes.is_indexed(job):
        return []
    taken = account.completed_indexes | account.failed_indexes
    result = []
    for pod in sorted(active, key=lambda pod: pod["metadata"].get("creationTimestamp", "")):
        index = completion_indexes.index_of(pod)
        if index is None or index in taken or index >= job["spec"]["completions"]:
            result.append(pod)
        else:
            taken = taken | {index}
    return result


def _to_create(
    job: Object,
    owned: Sequence[Object],
    busy: Sequence[Object],
    account: JobAccount,
    missing: int,
    now: float,
) -> tuple[list[DesiredPod], float]:
    if not completion_indexes.is_indexed(job):
        return [DesiredPod()] * missing, 0.0
    taken = account.completed_indexes | account.failed_indexes
    taken = taken | {index for pod in busy if (index := completion_indexes.index_of(pod)) is not None}
    failed: dict[int, list[Object]] = {}
    for pod in owned:
        if has_failed(job, pod) and (index := completion_indexes.index_of(pod)) is not None:
            failed.setdefault(index, []).append(pod)
    result: list[DesiredPod] = []
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
        result.append(
            DesiredPod(index, max((completion_indexes.failures_before(pod) + 1 for pod in before), default=0))
        )
    return result, waits


def pod(job: Object, owner: Object, desired: DesiredPod, finalizer: str) -> Object:
    """The pod to create."""
    made = pod_of(job["spec"]["template"], owner)
    metadata, name = made["metadata"], job["metadata"]["name"]
    metadata["finalizers"] = [*(metadata.get("finalizers") or ()), finalizer]
    metadata["generateName"] = f"{name}-"
    if desired.index is not None:
        _give_index(job, made, desired)
    return made


def _give_index(job: Object, made: Object, desired: DesiredPod) -> None:
    metadata, spec, name = made["metadata"], made["spec"], job["metadata"]["name"]
    metadata["generateName"] = f"{name}-{desired.index}-"
    metadata["annotations"] = {
        **(metadata.get("annotations") or {}),
        completion_indexes.INDEX: str(desired.index),
    }
    metadata["labels"] = {**(metadata.get("labels") or {}), completion_indexes.INDEX: str(desired.index)}
    if "backoffLimitPerIndex" in job["spec"]:
        metadata["annotations"][completion_indexes.FAILURES] = str(desired.failures)
    spec["hostname"] = f"{name}-{desired.index}"
    for field in ("containers", "initContainers"):
        if field in spec:
            spec[field] = [_with_index(container) for container in spec[field]]


def _with_index(container: Object) -> Object:
    environment = container.get("env") or []
    if any(each.get("name") == "JOB_COMPLETION_INDEX" for each in environment):
        return container
    path = f"metadata.labels['{completion_indexes.INDEX}']"
    entry = {"name": "JOB_COMPLETION_INDEX", "valueFrom": {"fieldRef": {"fieldPath": path}}}
    return {**container, "env": [*environment, entry]}

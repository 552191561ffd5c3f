"""The pods that a job creates and deletes next. Pure."""

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
    """A pod to create. For an indexed job, with its index and the index's number of failures."""

    index: int | None = None
    failures: int = 0


class JobPlan(Struct, frozen=True):
    create: tuple[DesiredPod, ...] = ()
    delete: tuple[Object, ...] = ()
    after_seconds: float | None = None
    """When the backoff ends that prevents the creation of further pods now."""


def active_pods(job: Object, owned: Sequence[Object]) -> list[Object]:
    return [pod for pod in owned if pods.is_active(pod) and not has_failed(job, pod)]


def plan(job: Object, owned: Sequence[Object], account: JobAccount, now: float) -> JobPlan:
    """For a job that is neither finished nor suspended."""
    active = active_pods(job, owned)
    surplus = _surplus_indexes(job, active, account)
    active = [pod for pod in active if not any(pod is other for other in surplus)]
    desired = _desired_active(job, len(active), account)
    if len(active) > desired:
        ranked = sorted(active, key=pods.first_to_delete(active, now))
        return JobPlan(delete=(*surplus, *ranked[: len(active) - desired]))
    terminating = [pod for pod in owned if pods.is_terminating(pod) and not pods.is_finished(pod)]
    unreplaced = len(terminating) if replaces_failed_only(job) else 0
    missing = min(desired - len(active) - unreplaced, BURST_MAX)
    if missing <= 0:
        return JobPlan(delete=tuple(surplus))
    # A pod that the controller deleted has no finalizer and does not count as failed.
    failed = [pod for pod in owned if has_failed(job, pod) and (pods.is_finished(pod) or is_tracked(pod))]
    backoff_seconds = wait_seconds(failed, [pod for pod in owned if pods.phase(pod) == "Succeeded"], now)
    if backoff_seconds > 0 and not completion_indexes.is_indexed(job):
        return JobPlan(delete=tuple(surplus), after_seconds=backoff_seconds)
    create, backoff_seconds = _to_create(
        job, owned, [*active, *(terminating if unreplaced else ())], account, missing, now
    )
    return JobPlan(tuple(create), tuple(surplus), backoff_seconds or None)


def _desired_active(job: Object, active: int, account: JobAccount) -> int:
    parallelism: int = job["spec"].get("parallelism", 1)
    completions: int | None = job["spec"].get("completions")
    if completions is None:
        return min(active, parallelism) if account.succeeded > 0 else parallelism
    remaining = completions - account.succeeded - len(account.failed_indexes)
    return max(0, min(remaining, parallelism))


def _surplus_indexes(job: Object, active: Sequence[Object], account: JobAccount) -> list[Object]:
    """Pods whose index is finished, out of range, or also another pod's."""
    if not completion_indexes.is_indexed(job):
        return []
    finished, seen = account.completed_indexes | account.failed_indexes, set[int]()
    result = []
    for pod in sorted(active, key=lambda pod: pod["metadata"].get("creationTimestamp", "")):
        index = completion_indexes.index_of(pod)
        if index is None or index in finished or index in seen or index >= job["spec"]["completions"]:
            result.append(pod)
        else:
            seen.add(index)
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
    used_indexes = account.completed_indexes | account.failed_indexes
    for pod in busy:
        if (index := completion_indexes.index_of(pod)) is not None:
            used_indexes.add(index)
    failed: dict[int, list[Object]] = {}
    for pod in owned:
        if has_failed(job, pod) and (index := completion_indexes.index_of(pod)) is not None:
            failed.setdefault(index, []).append(pod)
    result: list[DesiredPod] = []
    wait_min = 0.0
    for index in used_indexes.missing(job["spec"]["completions"]):
        if len(result) == missing:
            break
        before = failed.get(index, [])
        # The backoff of an index depends only on its failures.
        wait = wait_seconds(before, (), now)
        if wait > 0:
            wait_min = min(wait_min, wait) if wait_min else wait
            continue
        result.append(
            DesiredPod(index, max((completion_indexes.failures_before(pod) + 1 for pod in before), default=0))
        )
    return result, wait_min


def pod(job: Object, owner: Object, desired: DesiredPod, finalizer: str) -> Object:
    """The pod to create."""
    new_pod = pod_of(job["spec"]["template"], owner)
    metadata, name = new_pod["metadata"], job["metadata"]["name"]
    metadata["finalizers"] = [*(metadata.get("finalizers") or ()), finalizer]
    metadata["generateName"] = f"{name}-"
    if desired.index is not None:
        _set_index(job, new_pod, desired)
    return new_pod


def _set_index(job: Object, new_pod: Object, desired: DesiredPod) -> None:
    metadata, spec, name = new_pod["metadata"], new_pod["spec"], job["metadata"]["name"]
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

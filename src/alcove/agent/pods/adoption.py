"""Adoption of pods that an earlier agent process left running: builds a pod's view from its containers, as
the runtime lists them.

A pod's status may have been written by any client of its tenant. It is read only for containers that the spec
names: a name that is only in the status never becomes an id or a path on this node.
"""

from collections.abc import Iterable

from alcove.agent.pods import container_labels
from alcove.agent.pods.container_labels import ContainerMark
from alcove.agent.pods.containers import desired_containers
from alcove.agent.pods.view import ContainerRun, ObservedContainer, PodRuntimeView
from alcove.agent.runtime.base import ContainerId, ContainerPhase, ContainerStatus
from alcove.api.objects import Object

_STATUSES = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")


def view_of(pod: Object | None, existing: Iterable[ContainerStatus]) -> PodRuntimeView:
    """`pod` as the API server has it: restart counts come from its status if no containers exist any more, as
    after a reboot."""
    view = PodRuntimeView()
    labelled = [
        (mark, status) for status in existing if (mark := container_labels.read(status.labels)) is not None
    ]
    for mark, status in sorted(labelled, key=lambda each: each[0].attempt):
        if mark.container:
            _add(view.observed(mark.container), mark, status)
        else:
            view.sandbox, view.next_sandbox = status, mark.attempt + 1
    in_spec = {each.name for each in desired_containers(pod["spec"])} if pod is not None else set()
    for each in _reported_statuses(pod):
        if each.get("name") in in_spec:
            _restore(view.observed(each["name"]), each)
    return view


def _add(observed: ObservedContainer, mark: ContainerMark, status: ContainerStatus) -> None:
    observed.next_attempt = mark.attempt + 1
    if status.phase is ContainerPhase.BROKEN:
        observed.stale = (*observed.stale, status.id)
        return
    if observed.previous is not None:
        observed.stale = (*observed.stale, observed.previous.status.id)
    observed.previous = observed.current
    observed.current = ContainerRun(mark.attempt, status, mark.image, mark.image_id, user=mark.user)


def _reported_statuses(pod: Object | None) -> Iterable[Object]:
    status = (pod or {}).get("status") or {}
    for field in _STATUSES:
        yield from status.get(field) or ()


def _restore(observed: ObservedContainer, reported: Object) -> None:
    """Restores the restart count and, for the running container, its readiness from the reported status."""
    if reported.get("containerID"):
        observed.next_attempt = max(observed.next_attempt, int(reported.get("restartCount") or 0) + 1)
    current = observed.current
    if current is not None and current.is_running and _id(reported) == current.status.id:
        observed.is_started = bool(reported.get("started"))
        observed.is_ready = bool(reported.get("ready"))


def _id(reported: Object) -> ContainerId:
    return ContainerId(str(reported.get("containerID") or "").partition("://")[2])

"""In-place resize: what a pod's containers were given last, and what they are to be given now.

A resize that the node cannot make is not made in part: the pod keeps the resources that it was allocated, also for
containers that are restarted meanwhile, and its status says why.

    Infeasible    more than the node has: tried again when the spec changes
    Deferred      more than other pods leave: tried again every RETRY_SECONDS
    Error         the kernel refused it, as a memory limit below the usage: likewise
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING

from msgspec import Struct

from alcove.agent.podkey import PodKey
from alcove.agent.pods.admission import NodeAdmission, ResizeRefused
from alcove.agent.pods.containers import ContainerRole, DesiredContainer, desired_containers
from alcove.api import quantity
from alcove.api.objects import Object, get

if TYPE_CHECKING:
    from alcove.agent.pods.executor import PodExecutor
    from alcove.agent.pods.view import PodRuntimeView

RETRY_SECONDS = 5.0
_RESIZED = ("cpu", "memory")


class ResizeState(Struct):
    allocated: list[Object] | None = None
    """The resources that the containers were given last; None before the pod was set up."""
    refused: list[Object] | None = None
    """The resources that they could not be given."""
    reason: str = ""
    """Infeasible, Deferred or Error; empty if nothing was refused."""
    message: str = ""
    retry_at: float = 0.0

    def is_due(self, spec: Object, now: float) -> bool:
        wanted = resources_of(spec)
        if self.allocated is None or self.allocated == wanted:
            return False
        return self.refused != wanted or now >= self.retry_at

    def wake_at(self, spec: Object) -> float | None:
        """When a refused resize is tried again."""
        is_waiting = self.refused == resources_of(spec) and math.isfinite(self.retry_at)
        return self.retry_at if is_waiting and self.allocated != self.refused else None


def resources_of(spec: Object) -> list[Object]:
    """The resources of all containers except ephemeral ones, in order."""
    return [each.spec.get("resources") or {} for each in _sized(spec)]


def reported_resources(pod: Object) -> list[Object]:
    """What the containers were allocated, as the pod's status says; for containers that did not run yet, what the
    spec asks for."""
    fields = ("initContainerStatuses", "containerStatuses")
    statuses = [each for field in fields for each in get(pod, "status", field, default=())]
    reported = {each.get("name"): each.get("resources") or {} for each in statuses}
    result = []
    for container in _sized(pod["spec"]):
        wanted, allocated = container.spec.get("resources") or {}, reported.get(container.name) or {}
        # Users may write a status: never more than the spec, which was checked against quotas.
        result.append(allocated if allocated and _is_within(allocated, wanted) else wanted)
    return result


def _is_within(resources: Object, bounds: Object) -> bool:
    """Whether both have the same amounts, and no one of the first is larger."""
    for field in ("requests", "limits"):
        amounts, most = resources.get(field) or {}, bounds.get(field) or {}
        if set(amounts) != set(most):
            return False
        try:
            if any(quantity.of(amounts[name]) > quantity.of(most[name]) for name in amounts):
                return False
        except ValueError:
            return False
    return True


def with_resources(pod: Object, allocated: Sequence[Object] | None) -> Object:
    """The pod as it was allocated."""
    if allocated is None or allocated == resources_of(pod["spec"]):
        return pod
    by_name = {each.name: resources for each, resources in zip(_sized(pod["spec"]), allocated, strict=False)}
    spec = dict(pod["spec"])
    for field in ("initContainers", "containers"):
        if field in spec:
            spec[field] = [
                {**each, "resources": by_name.get(each["name"], each.get("resources") or {})}
                for each in spec[field]
            ]
    return {**pod, "spec": spec}


async def resize(
    key: PodKey,
    pod: Object,
    view: PodRuntimeView,
    admission: NodeAdmission,
    executor: PodExecutor,
    now: float,
) -> tuple[str, str] | None:
    """Gives the containers the resources of the spec. Returns an event's reason and message if that failed."""
    state, spec = view.resize, pod["spec"]
    running = {}
    for each in desired_containers(spec):
        observed = view.observed(each.name)
        if observed.current is not None and observed.is_running:
            running[observed.current.status.id] = each.spec
    try:
        admission.resize(key, pod)
        await executor.resize(pod, running)
    except ResizeRefused as error:
        retry_at = now + RETRY_SECONDS if error.reason == "Deferred" else math.inf
        return _refuse(state, spec, error.reason, str(error), retry_at)
    except OSError as error:
        # Most likely the new memory limit is below the usage.
        return _refuse(state, spec, "Error", str(error), now + RETRY_SECONDS)
    _restart(view, spec, state.allocated or [])
    view.resize = ResizeState(resources_of(spec))
    return None


def _refuse(
    state: ResizeState, spec: Object, reason: str, message: str, retry_at: float
) -> tuple[str, str] | None:
    is_news = (state.reason, state.message) != (reason, message)
    state.refused, state.reason, state.message = resources_of(spec), reason, message
    state.retry_at = retry_at
    return (f"Resize{reason}", message) if is_news else None


def _restart(view: PodRuntimeView, spec: Object, before: Sequence[Object]) -> None:
    """Marks the containers whose resize policy wants a restart."""
    for container, old in zip_longest(_sized(spec), before, fillvalue=None):
        if (
            container is not None
            and container.name in view.containers
            and needs_restart(container, old or {})
        ):
            observed = view.observed(container.name)
            if observed.is_running:
                observed.kill_message = f"Container {container.name} resize requires restart"


def needs_restart(container: DesiredContainer, old: Object) -> bool:
    new: Object = container.spec.get("resources") or {}
    changed = {
        name
        for field in ("requests", "limits")
        for name in _RESIZED
        if (new.get(field) or {}).get(name) != (old.get(field) or {}).get(name)
    }
    policies = container.spec.get("resizePolicy") or ()
    return any(
        each.get("resourceName") in changed and each.get("restartPolicy") == "RestartContainer"
        for each in policies
    )


def _sized(spec: Object) -> list[DesiredContainer]:
    return [each for each in desired_containers(spec) if each.role is not ContainerRole.EPHEMERAL]

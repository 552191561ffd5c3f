"""The core's decisions. The runner executes them and reports the outcome."""

from __future__ import annotations

from msgspec import Struct

from alcove.api.ids import TenantId
from alcove.client.keys import PlaneId
from alcove.scheduler.pods import SchedulerPod
from alcove.scheduler.volumeplans import VolumePlan


class ScheduledPodRef(Struct, frozen=True):
    plane: PlaneId
    tenant: TenantId
    namespace: str
    name: str
    uid: str


def ref(pod: SchedulerPod) -> ScheduledPodRef:
    return ScheduledPodRef(pod.plane, pod.tenant, pod.namespace, pod.name, pod.uid)


class BindPod(Struct, frozen=True):
    """Bind the pod to the node. Answer with `bound`, `refused` or `unanswered`."""

    pod: ScheduledPodRef
    node: str
    is_repeated: bool = False
    """The outcome of the last attempt is unknown."""

    @property
    def text(self) -> str:
        """Message of the event, as in Kubernetes."""
        return f"Successfully assigned {self.pod.namespace}/{self.pod.name} to {self.node}"


class Prepare(Struct, frozen=True):
    """Bind or provision volumes; a `BindPod` follows once the claims are bound. Report failure with
    `unprepared`."""

    pod: ScheduledPodRef
    node: str
    plan: VolumePlan


class Preempt(Struct, frozen=True):
    """Evict the victims, nominate the node, and report why the pod is pending."""

    pod: ScheduledPodRef
    node: str
    victims: tuple[ScheduledPodRef, ...]
    text: str

    @property
    def victim_text(self) -> str:
        """Message of the event at each victim."""
        return f"Preempted by pod {self.pod.uid} on node {self.node}"


class Unschedulable(Struct, frozen=True):
    """Report why the pod is pending: an event, and its condition `PodScheduled`."""

    pod: ScheduledPodRef
    text: str
    is_denominated: bool = False
    """The pod's nomination was removed."""


Decision = BindPod | Prepare | Preempt | Unschedulable

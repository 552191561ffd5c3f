"""What the core decides, for somebody else to carry out and to report back."""

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
    """Nobody knows what became of the last attempt."""

    @property
    def text(self) -> str:
        """The event's, as Kubernetes words it."""
        return f"Successfully assigned {self.pod.namespace}/{self.pod.name} to {self.node}"


class Prepare(Struct, frozen=True):
    """Bind or ask for volumes; once the claims are seen bound, a `BindPod` follows. Tell of failure with `unprepared`."""

    pod: ScheduledPodRef
    node: str
    plan: VolumePlan


class Preempt(Struct, frozen=True):
    """Evict the victims, nominate the node and tell the pod why it waits."""

    pod: ScheduledPodRef
    node: str
    victims: tuple[ScheduledPodRef, ...]
    text: str

    @property
    def victim_text(self) -> str:
        """The event's at each victim."""
        return f"Preempted by pod {self.pod.uid} on node {self.node}"


class Unschedulable(Struct, frozen=True):
    """Tell the pod why it waits: an event, and its condition `PodScheduled`."""

    pod: ScheduledPodRef
    text: str
    is_denominated: bool = False
    """It was nominated for a node, and is no longer."""


Decision = BindPod | Prepare | Preempt | Unschedulable

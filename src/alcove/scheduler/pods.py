"""The scheduler's small representation of a pod. Shapes and groups are shared."""

from __future__ import annotations

from enum import IntEnum

from alcove.api.ids import TenantId
from alcove.client.keys import PlaneId
from alcove.scheduler.groups import PodGroup
from alcove.scheduler.shapes import PodShape


class PodState(IntEnum):
    IGNORED = 0
    """Not pending here and without resources: of another scheduler, gated, or finished."""
    PENDING = 1
    """Waits to be scheduled."""
    ASSUMED = 2
    """Decided, but the plane has not confirmed the binding."""
    PLACED = 3
    """Bound to its node."""


class SchedulerPod:
    __slots__ = (
        "attempts",
        "created",
        "group",
        "is_denominated",
        "is_evicted",
        "is_leaving",
        "may_preempt",
        "name",
        "namespace",
        "needs_report",
        "node",
        "nominated",
        "plane",
        "priority",
        "queued",
        "reported_at",
        "reported_reason",
        "shape",
        "slot",
        "started",
        "state",
        "tenant",
        "uid",
        "was_blocked",
    )

    def __init__(self, uid: str, plane: PlaneId, tenant: TenantId, namespace: str, name: str) -> None:
        self.uid = uid
        self.plane = plane
        self.tenant = tenant
        self.namespace = namespace
        self.name = name
        self.state = PodState.IGNORED
        self.shape: PodShape
        self.group: PodGroup
        self.priority = 0
        self.may_preempt = True
        self.created = ""
        """Creation time as RFC 3339 text, which sorts by time."""
        self.started = ""
        self.is_leaving = False
        """Being deleted; it still holds its resources."""
        self.is_evicted = False
        """Preempted, according to its DisruptionTarget condition."""
        self.node = ""
        """Node to which it is bound or assumed."""
        self.slot = -1
        """Slot in which it is counted; -1 if it is not counted."""
        self.nominated = ""
        """Node on which resources are reserved for it after preemption."""
        self.is_denominated = False
        """Its nomination was removed, but not in the object yet."""
        self.attempts = 0
        """Consecutive failed attempts, for the backoff."""
        self.reported_reason = ""
        """The last reported reason why it is pending."""
        self.reported_at = 0.0
        self.needs_report = False
        self.was_blocked = False
        """It was unschedulable before."""
        self.queued = 0
        """Order of arrival; 0 if it is not queued."""

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    def __repr__(self) -> str:
        return f"<{self.tenant}/{self.key} {self.state.name} {self.node}>"

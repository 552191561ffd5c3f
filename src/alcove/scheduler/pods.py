"""What the scheduler keeps of a pod: little, for there are many. Shapes and groups are shared."""

from __future__ import annotations

from enum import IntEnum

from alcove.api.ids import TenantId
from alcove.client.keys import PlaneId
from alcove.scheduler.groups import PodGroup
from alcove.scheduler.shapes import PodShape


class PodState(IntEnum):
    IGNORED = 0
    """Neither to be placed by us nor taking anything: of another scheduler, gated, finished."""
    PENDING = 1
    """Waits to be placed."""
    ASSUMED = 2
    """Decided; that the plane took the decision is not yet known."""
    PLACED = 3
    """On its node."""


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
        """When it was made; as text, which sorts as time does."""
        self.started = ""
        self.is_leaving = False
        """Being deleted: it still takes what it has."""
        self.is_evicted = False
        """To make room for a more important one, as its object says."""
        self.node = ""
        """Where it is placed, or assumed to be."""
        self.slot = -1
        """Where it is counted in the arrays; -1: nowhere."""
        self.nominated = ""
        """The node on which others make room for it."""
        self.is_denominated = False
        """It was nominated for a node and no longer is, which its object does not say yet."""
        self.attempts = 0
        """In a row, that came to nothing and are repeated after a while."""
        self.reported_reason = ""
        """Why it is pending, as last told."""
        self.reported_at = 0.0
        self.needs_report = False
        self.was_blocked = False
        """It was tried before, and fitted nowhere."""
        self.queued = 0
        """The order of arrival."""

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    def __repr__(self) -> str:
        return f"<{self.tenant}/{self.key} {self.state.name} {self.node}>"

"""What all pod workers of a node share."""

import asyncio
from collections.abc import Callable

from msgspec import Struct, field

from alcove.agent.podkey import PodKey
from alcove.agent.pods.admission import NodeAdmission
from alcove.agent.probes.slots import ExecProbeSlots

NORMAL, WARNING = "Normal", "Warning"

Note = Callable[[PodKey, str, str, str], None]
"""(pod, type, reason, message) of an event."""


class WorkerContext(Struct, frozen=True):
    addresses: tuple[str, ...]
    """The node's addresses."""
    note: Note
    admission: NodeAdmission
    starts: asyncio.Semaphore
    """Limits how many sandboxes and containers are created at the same time."""
    wall: Callable[[], float]
    """Wall clock, in epoch seconds."""
    clock: Callable[[], float]
    """Monotonic clock."""
    probe_slots: ExecProbeSlots = field(default_factory=ExecProbeSlots)
    """Limits how many exec probes run at the same time."""

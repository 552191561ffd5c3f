"""What all pods' workers of a node share."""

import asyncio
from collections.abc import Callable

from msgspec import Struct

from alcove.agent.podkey import PodKey
from alcove.agent.pods.admission import NodeAdmission

NORMAL, WARNING = "Normal", "Warning"

Note = Callable[[PodKey, str, str, str], None]
"""(pod, type, reason, message) of an event."""


class WorkerContext(Struct, frozen=True):
    addresses: tuple[str, ...]
    """The node's."""
    note: Note
    admission: NodeAdmission
    starts: asyncio.Semaphore
    """As many sandboxes and containers are made at the same time."""
    wall: Callable[[], float]
    clock: Callable[[], float]
    """Monotonic."""

"""What all pod workers of a node share."""

from collections.abc import Callable

from msgspec import Struct, field

from alcove.agent.podkey import PodKey
from alcove.agent.pods.admission import NodeAdmission
from alcove.agent.probes.prober import ProbeSlots
from alcove.api.ids import SYSTEM
from alcove.client.keys import HOME, TenantKey
from alcove.component.fair_slots import FairSlots

NORMAL, WARNING = "Normal", "Warning"

STARTS_MAX = 12
"""Sandboxes and containers that are started at the same time on a node. A tenant alone gets half of them: each start
takes about as much as a core can do."""
EXEC_PROBES_MAX = 64
"""Exec probes that run at the same time on a node; more wait, except the first one of each tenant: each is a process
of the node until it has started in the container."""
TENANT_EXEC_PROBES_MAX = 16
"""Exec probes of one tenant that run at the same time on a node; more wait, and so run less often."""
NETWORK_PROBES_MAX = 256
"""HTTP, TCP and gRPC probes that run at the same time on a node, except the first one of each tenant."""
TENANT_NETWORK_PROBES_MAX = 32
"""The same of one tenant; more wait, and so run less often: a pod may have hundreds of containers, each with probes every
second, and the agent that runs them serves everybody."""

Note = Callable[[PodKey, str, str, str], None]
"""(pod, type, reason, message) of an event."""


TenantSlots = FairSlots[TenantKey]


def start_slots() -> TenantSlots:
    return FairSlots(STARTS_MAX, unlimited=TenantKey(HOME, SYSTEM))


def probe_slots() -> ProbeSlots:
    """A probe runs for as long as the tenant says, so nobody's first one waits for others."""
    return ProbeSlots(
        FairSlots(EXEC_PROBES_MAX, owner_max=TENANT_EXEC_PROBES_MAX, first_is_free=True),
        FairSlots(NETWORK_PROBES_MAX, owner_max=TENANT_NETWORK_PROBES_MAX, first_is_free=True),
    )


class WorkerContext(Struct, frozen=True):
    addresses: tuple[str, ...]
    """The node's addresses."""
    note: Note
    admission: NodeAdmission
    wall: Callable[[], float]
    """Wall clock, in epoch seconds."""
    clock: Callable[[], float]
    """Monotonic clock."""
    starts: TenantSlots = field(default_factory=start_slots)
    """Limits how many sandboxes and containers are created at the same time."""
    probe_slots: ProbeSlots = field(default_factory=probe_slots)
    """Limits how many probes run at the same time."""

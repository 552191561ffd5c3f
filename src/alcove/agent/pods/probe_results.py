"""What probes mean for a container: written down where the plan sees it."""

from collections.abc import Callable

from alcove.agent.pods.view import ObservedContainer
from alcove.agent.probes.prober import ProbeCallbacks
from alcove.api.objects import Object

RecordProbeEvent = Callable[[str, str, str], None]
"""(type, reason, message) of an event."""


def has_probes(container: Object) -> bool:
    return any(container.get(f"{kind}Probe") for kind in ("startup", "liveness", "readiness"))


def ears(
    name: str, observed: ObservedContainer, wake: Callable[[], None], note: RecordProbeEvent
) -> ProbeCallbacks:
    def started() -> None:
        observed.is_started = True
        wake()

    def ready(holds: bool) -> None:
        if observed.is_ready is not holds:
            observed.is_ready = holds
            wake()

    def doomed(kind: str) -> None:
        observed.doom = f"Container {name} failed {kind} probe"
        wake()

    def unhealthy(kind: str, message: str) -> None:
        note("Warning", "Unhealthy", f"{kind.capitalize()} probe failed: {message}")

    return ProbeCallbacks(started, ready, doomed, unhealthy)

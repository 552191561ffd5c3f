"""Writes the results of a container's probes into its observed state, from which the plan is made."""

from collections.abc import Callable

from alcove.agent.pods.view import ObservedContainer
from alcove.agent.probes.prober import ProbeCallbacks
from alcove.api.objects import Object

RecordProbeEvent = Callable[[str, str, str], None]
"""(type, reason, message) of an event."""


def has_probes(container: Object) -> bool:
    return any(container.get(f"{kind}Probe") for kind in ("startup", "liveness", "readiness"))


def probe_callbacks(
    name: str, observed: ObservedContainer, wake: Callable[[], None], note: RecordProbeEvent
) -> ProbeCallbacks:
    """Callbacks that update `observed` and call `wake` when that changes the plan."""

    def started() -> None:
        observed.is_started = True
        wake()

    def ready_changed(is_ready: bool) -> None:
        if observed.is_ready is not is_ready:
            observed.is_ready = is_ready
            wake()

    def restart_needed(kind: str) -> None:
        observed.kill_message = f"Container {name} failed {kind} probe"
        wake()

    def unhealthy(kind: str, message: str) -> None:
        note("Warning", "Unhealthy", f"{kind.capitalize()} probe failed: {message}")

    return ProbeCallbacks(started, ready_changed, restart_needed, unhealthy)

"""What probes mean for a container: written down where the plan sees it."""

from collections.abc import Callable

from alcove.agent.pods.view import Seen
from alcove.agent.probes.prober import Heard
from alcove.api.objects import Object

Tell = Callable[[str, str, str], None]
"""(type, reason, message) of an event."""


def has_probes(container: Object) -> bool:
    return any(container.get(f"{kind}Probe") for kind in ("startup", "liveness", "readiness"))


def ears(name: str, seen: Seen, wake: Callable[[], None], note: Tell) -> Heard:
    def started() -> None:
        seen.is_started = True
        wake()

    def ready(holds: bool) -> None:
        if seen.is_ready is not holds:
            seen.is_ready = holds
            wake()

    def doomed(kind: str) -> None:
        seen.doom = f"Container {name} failed {kind} probe"
        wake()

    def unhealthy(kind: str, message: str) -> None:
        note("Warning", "Unhealthy", f"{kind.capitalize()} probe failed: {message}")

    return Heard(started, ready, doomed, unhealthy)

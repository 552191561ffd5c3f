"""The restart back-off after a container has exited."""

from alcove.agent.pods import backoff
from alcove.agent.pods.containers import DesiredContainer, restarts
from alcove.agent.pods.view import ObservedContainer
from alcove.api.objects import Object


def after(container: DesiredContainer, observed: ObservedContainer, spec: Object, now: float) -> str | None:
    """Sets when the container may be restarted. Returns the back-off message; None if it is not restarted or
    restarts immediately."""
    assert observed.current is not None
    ended = observed.current.status
    ran = ended.finished_at - ended.started_at if ended.started_at else 0.0
    observed.crashes = 1 if ran >= backoff.HEALTHY_SECONDS else observed.crashes + 1
    waits = backoff.crash_seconds(observed.crashes)
    observed.retry_at = now + waits
    if not waits or not restarts(container, spec, ended.exit_code):
        return None
    return f"back-off {duration(waits)} restarting failed container={container.name}"


def duration(seconds: float) -> str:
    """In Go's format: `10s`, `1m20s`, `5m0s`."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"

"""Back-off times before restarts and retries, as the kubelet has them."""

from alcove.agent.pods.containers import DesiredContainer, restarts
from alcove.agent.pods.view import ObservedContainer
from alcove.api.objects import Object

CRASH_SECONDS = 10.0
CRASH_SECONDS_MAX = 300.0
HEALTHY_SECONDS = 600.0
"""A container that ran this long resets its crash back-off."""
TRY_SECONDS = 0.2
TRY_SECONDS_MAX = 20.0
FAILURE_SHOWN_SECONDS = 2.0
"""How long a failure (ErrImagePull) stays in the status before it becomes a back-off (ImagePullBackOff)."""


def crash_seconds(crashes: int) -> float:
    """The delay before the restart after `crashes` exits in a row: none, then 10 s, 20 s, up to 5 min."""
    if crashes <= 1:
        return 0.0
    return min(CRASH_SECONDS * 2.0 ** min(crashes - 2, 16), CRASH_SECONDS_MAX)


def try_seconds(failures: int) -> float:
    """The delay before the next attempt after `failures` failed ones: short at first, since a network, a
    volume or a config map is often there a moment later."""
    return min(TRY_SECONDS * 2.0 ** min(failures - 1, 16), TRY_SECONDS_MAX) if failures else 0.0


def after_exit(
    container: DesiredContainer, observed: ObservedContainer, spec: Object, now: float
) -> str | None:
    """Sets when the container may be restarted. Returns the back-off message; None if it is not restarted or
    restarts immediately."""
    assert observed.current is not None
    ended = observed.current.status
    ran = ended.finished_at - ended.started_at if ended.started_at else 0.0
    observed.crashes = 1 if ran >= HEALTHY_SECONDS else observed.crashes + 1
    waits = crash_seconds(observed.crashes)
    observed.retry_at = now + waits
    if not waits or not restarts(container, spec, ended.exit_code):
        return None
    return f"back-off {_duration(waits)} restarting failed container={container.name}"


def _duration(seconds: float) -> str:
    """In Go's format: `10s`, `1m20s`, `5m0s`."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"

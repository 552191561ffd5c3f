"""Back-off times before restarts and retries, as the kubelet has them."""

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

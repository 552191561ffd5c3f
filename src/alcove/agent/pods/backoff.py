"""How long to wait before trying again, as the kubelet waits."""

CRASH_SECONDS = 10.0
CRASH_SECONDS_MAX = 300.0
HEALTHY_SECONDS = 600.0
"""Whoever ran this long did not crash because of what it did when it started."""
TRY_SECONDS = 0.2
TRY_SECONDS_MAX = 20.0
FAILURE_SHOWN_SECONDS = 2.0
"""A failure is shown this long before it is shown as waiting for another try."""


def crash_seconds(crashes: int) -> float:
    """After so many ends in a row: at once, then after 10 s, 20 s, up to 5 min."""
    if crashes <= 1:
        return 0.0
    return min(CRASH_SECONDS * 2.0 ** min(crashes - 2, 16), CRASH_SECONDS_MAX)


def try_seconds(failures: int) -> float:
    """What should be there in a moment (a network, a volume, a config map) is looked for soon, then less often."""
    return min(TRY_SECONDS * 2.0 ** min(failures - 1, 16), TRY_SECONDS_MAX) if failures else 0.0

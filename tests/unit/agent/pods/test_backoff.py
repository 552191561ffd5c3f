"""Delays before restarts and retries."""

from alcove.agent.pods.backoff import crash_seconds, try_seconds


def test_crashes() -> None:
    assert [crash_seconds(each) for each in range(9)] == [0, 0, 10, 20, 40, 80, 160, 300, 300]
    assert crash_seconds(10_000) == 300


def test_tries() -> None:
    waits = [try_seconds(each) for each in range(12)]
    assert waits[0] == 0 and waits[1] == 0.2 and waits[-1] == 20
    assert waits == sorted(waits)

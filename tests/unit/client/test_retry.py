"""Which requests are retried, and after how long."""

import pytest

from alcove.client.errors import Unreachable
from alcove.client.retry import AttemptOutcome, RetryPolicy, wait_seconds
from alcove.http.client import ReceivedResponse

POLICY = RetryPolicy(attempts_max=4, first_seconds=0.1, wait_seconds_max=10)
LOST = Unreachable("lost", sent=True)
NEVER_SENT = Unreachable("refused", sent=False)


def answered(method: str, status: int, **headers: str) -> AttemptOutcome:
    return AttemptOutcome(method, ReceivedResponse(status, headers, b""))


@pytest.mark.parametrize(
    ("outcome", "again"),
    [
        (answered("POST", 429), True),
        (answered("POST", 503), True),
        (answered("POST", 500), False),
        (answered("PATCH", 504), False),
        (answered("GET", 500), True),
        (answered("PUT", 504), True),
        (answered("DELETE", 500), True),
        (answered("GET", 404), False),
        (answered("PUT", 409), False),
        (answered("POST", 422), False),
        (AttemptOutcome("POST", error=LOST), False),
        (AttemptOutcome("PATCH", error=LOST), False),
        (AttemptOutcome("GET", error=LOST), True),
        (AttemptOutcome("DELETE", error=LOST), True),
        (AttemptOutcome("POST", error=NEVER_SENT), True),
    ],
)
def test_only_what_was_not_done_or_may_be_done_twice_is_sent_again(
    outcome: AttemptOutcome, again: bool
) -> None:
    assert (wait_seconds(POLICY, 1, outcome) is not None) is again


def test_waits_double_and_end() -> None:
    waits = [wait_seconds(POLICY, attempt, answered("GET", 503), chance=0.5) for attempt in (1, 2, 3, 4)]
    assert waits == [pytest.approx(0.1), pytest.approx(0.2), pytest.approx(0.4), None]


def test_retry_after_is_followed_within_bounds() -> None:
    assert wait_seconds(POLICY, 1, answered("GET", 429, **{"retry-after": "3"})) == 3
    assert wait_seconds(POLICY, 1, answered("GET", 429, **{"retry-after": "9999"})) == 10
    odd = wait_seconds(POLICY, 1, answered("GET", 429, **{"retry-after": "tomorrow"}), chance=0.5)
    assert odd == pytest.approx(0.1)

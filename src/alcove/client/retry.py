"""Decides whether and when a request is retried. Retries are always bounded.

| outcome                        | retried                                                    |
|--------------------------------|------------------------------------------------------------|
| 429, 503                       | any method: the server did not act. Retry-After is honored |
| 500, 504, connection lost      | GET, PUT, DELETE, which are idempotent                     |
| connection never established   | any method                                                 |
| everything else                | no                                                         |
"""

from __future__ import annotations

import random

from msgspec import Struct

from alcove.client.errors import Unreachable
from alcove.http.client import ReceivedResponse

_REPEATABLE = frozenset({"GET", "PUT", "DELETE"})
_NOT_DONE = frozenset({429, 503})
_UNKNOWN = frozenset({500, 504})


class RetryPolicy(Struct, frozen=True, kw_only=True):
    attempts_max: int = 4
    first_seconds: float = 0.05
    wait_seconds_max: float = 10.0


class AttemptOutcome(Struct, frozen=True):
    """The outcome of an attempt: a response, or an error."""

    method: str
    response: ReceivedResponse | None = None
    error: Unreachable | None = None


def wait_seconds(
    policy: RetryPolicy, attempt: int, outcome: AttemptOutcome, chance: float | None = None
) -> float | None:
    """The wait before attempt `attempt + 1` (the first is 1); None if the request must not be retried."""
    if attempt >= policy.attempts_max or not _is_retryable(outcome):
        return None
    requested = _retry_after(outcome.response)
    jitter = random.random() if chance is None else chance
    backoff = policy.first_seconds * 2.0 ** (attempt - 1) * (0.5 + jitter)
    return min(max(backoff, requested), policy.wait_seconds_max)


def _is_retryable(outcome: AttemptOutcome) -> bool:
    repeatable = outcome.method in _REPEATABLE
    if outcome.error is not None:
        return repeatable or not outcome.error.sent
    assert outcome.response is not None
    status = outcome.response.status
    return status in _NOT_DONE or (status in _UNKNOWN and repeatable)


def _retry_after(response: ReceivedResponse | None) -> float:
    text = response.headers.get("retry-after", "") if response is not None else ""
    return float(text) if text.isascii() and text.isdigit() else 0.0

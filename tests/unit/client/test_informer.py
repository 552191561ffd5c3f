"""The informer's transitions, one by one."""

import pytest

from alcove.client.informer import (
    BACKOFF_SECONDS_MAX,
    Outcome,
    State,
    Step,
    backoff_seconds,
    following,
)

TABLE = [
    (State.LISTING, Outcome.ENDED, Step(State.LISTING, waits=True)),
    (State.LISTING, Outcome.LOST, Step(State.LISTING, waits=True)),
    (State.LISTING, Outcome.EXPIRED, Step(State.LISTING, waits=True)),
    (State.LISTING, Outcome.REFUSED, Step(State.LISTING, waits=True)),
    (State.WATCHING, Outcome.ENDED, Step(State.RESUMING, waits=False)),
    (State.WATCHING, Outcome.LOST, Step(State.RESUMING, waits=True)),
    (State.WATCHING, Outcome.EXPIRED, Step(State.LISTING, waits=False)),
    (State.WATCHING, Outcome.REFUSED, Step(State.LISTING, waits=True)),
    (State.RESUMING, Outcome.ENDED, Step(State.RESUMING, waits=True)),
    (State.RESUMING, Outcome.LOST, Step(State.RESUMING, waits=True)),
    (State.RESUMING, Outcome.EXPIRED, Step(State.LISTING, waits=False)),
    (State.RESUMING, Outcome.REFUSED, Step(State.LISTING, waits=True)),
]


def test_the_table_is_whole() -> None:
    assert {(state, outcome) for state, outcome, _ in TABLE} == {
        (state, outcome) for state in State for outcome in Outcome
    }


@pytest.mark.parametrize(("state", "outcome", "step"), TABLE)
def test_what_follows(state: State, outcome: Outcome, step: Step) -> None:
    assert following(state, outcome) == step


def test_backoff_grows_to_its_bound() -> None:
    waits = [backoff_seconds(failures, 1.0) for failures in range(1, 100)]
    assert waits == sorted(waits) and waits[-1] == BACKOFF_SECONDS_MAX
    assert backoff_seconds(1, 0.0) < backoff_seconds(1, 1.0)

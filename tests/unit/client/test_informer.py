"""The informer's transitions, one by one."""

import pytest

from alcove.client.informer import (
    BACKOFF_SECONDS_MAX,
    InformerState,
    InformerStep,
    WatchOutcome,
    backoff_seconds,
    following,
)

TABLE = [
    (InformerState.LISTING, WatchOutcome.ENDED, InformerStep(InformerState.LISTING, waits=True)),
    (InformerState.LISTING, WatchOutcome.LOST, InformerStep(InformerState.LISTING, waits=True)),
    (InformerState.LISTING, WatchOutcome.EXPIRED, InformerStep(InformerState.LISTING, waits=True)),
    (InformerState.LISTING, WatchOutcome.REFUSED, InformerStep(InformerState.LISTING, waits=True)),
    (InformerState.WATCHING, WatchOutcome.ENDED, InformerStep(InformerState.RESUMING, waits=False)),
    (InformerState.WATCHING, WatchOutcome.LOST, InformerStep(InformerState.RESUMING, waits=True)),
    (InformerState.WATCHING, WatchOutcome.EXPIRED, InformerStep(InformerState.LISTING, waits=False)),
    (InformerState.WATCHING, WatchOutcome.REFUSED, InformerStep(InformerState.LISTING, waits=True)),
    (InformerState.RESUMING, WatchOutcome.ENDED, InformerStep(InformerState.RESUMING, waits=True)),
    (InformerState.RESUMING, WatchOutcome.LOST, InformerStep(InformerState.RESUMING, waits=True)),
    (InformerState.RESUMING, WatchOutcome.EXPIRED, InformerStep(InformerState.LISTING, waits=False)),
    (InformerState.RESUMING, WatchOutcome.REFUSED, InformerStep(InformerState.LISTING, waits=True)),
]


def test_the_transition_table_is_complete() -> None:
    assert {(state, outcome) for state, outcome, _ in TABLE} == {
        (state, outcome) for state in InformerState for outcome in WatchOutcome
    }


@pytest.mark.parametrize(("state", "outcome", "step"), TABLE)
def test_transitions(state: InformerState, outcome: WatchOutcome, step: InformerStep) -> None:
    assert following(state, outcome) == step


def test_backoff_grows_to_its_bound() -> None:
    waits = [backoff_seconds(failures, 1.0) for failures in range(1, 100)]
    assert waits == sorted(waits) and waits[-1] == BACKOFF_SECONDS_MAX
    assert backoff_seconds(1, 0.0) < backoff_seconds(1, 1.0)

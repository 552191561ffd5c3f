"""Where nodes have seen something else than the objects say."""

from alcove.api.objects import Object
from alcove.cli.trace import compare
from alcove.network.trace import DEPENDS, DROPPED, FORWARDED, Trace


def flow(verdict: str) -> Object:
    return {"verdict": verdict, "node": "n1"}


def test_the_last_packets_are_compared_with_what_should_be() -> None:
    assert compare(Trace((), FORWARDED), []) == ""
    assert compare(Trace((), FORWARDED), [flow("forwarded"), flow("dropped")]) == ""
    assert compare(Trace((), DEPENDS), [flow("dropped")]) == ""
    told = compare(Trace((), DROPPED), [flow("forwarded"), flow("dropped")])
    assert told.startswith("the objects say dropped, but the last packets were forwarded on n1")

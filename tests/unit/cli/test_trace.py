"""Where nodes have seen something else than the objects say."""

from alcove.api.objects import Object
from alcove.cli.trace import compare, compare_kernel
from alcove.network.trace import DEPENDS, DROPPED, FORWARDED, Trace, TraceStep


def flow(verdict: str) -> Object:
    return {"verdict": verdict, "node": "n1"}


def test_the_last_packets_are_compared_with_what_should_be() -> None:
    assert compare(Trace((), FORWARDED), []) == ""
    assert compare(Trace((), FORWARDED), [flow("forwarded"), flow("dropped")]) == ""
    assert compare(Trace((), DEPENDS), [flow("dropped")]) == ""
    told = compare(Trace((), DROPPED), [flow("forwarded"), flow("dropped")])
    assert told.startswith("the objects say dropped, but the last packets were forwarded on n1")


def test_the_kernel_is_compared_with_what_its_node_decides() -> None:
    passes, drops = {"verdict": "forwarded", "node": "n1"}, {"verdict": "dropped", "node": "n1"}
    away = {**passes, "nextNode": "n2"}
    ok, ingress = TraceStep("egress policy", ""), TraceStep("ingress policy", "", False)
    assert compare_kernel(Trace((ok,), FORWARDED), passes) == ""
    assert compare_kernel(Trace((ok,), FORWARDED), {}) == ""
    assert compare_kernel(Trace((ok, ingress), DROPPED), away) == "", "the other node denies it"
    assert compare_kernel(Trace((ok, ingress), DROPPED), drops) == ""
    assert "the objects say dropped, but" in compare_kernel(Trace((ok, ingress), DROPPED), passes)
    assert "the objects say forwarded, but" in compare_kernel(Trace((ok,), FORWARDED), drops)

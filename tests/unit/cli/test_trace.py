"""Where nodes have seen something else than the objects say."""

import time

from alcove.api import meta
from alcove.api.objects import Object
from alcove.cli.trace import FollowedPacket, compare, compare_kernel, compare_live, follow, is_to
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


def test_the_receivers_kernel_is_compared_with_all_that_the_objects_say() -> None:
    away: Object = {"verdict": "forwarded", "node": "n1", "nextNode": "n2"}
    ok, ingress = TraceStep("egress policy", ""), TraceStep("ingress policy", "", False)
    passes, drops = {"verdict": "forwarded", "node": "n2"}, {"verdict": "dropped", "node": "n2"}
    assert compare_kernel(Trace((ok,), FORWARDED), {**away, "receiver": passes}) == ""
    assert compare_kernel(Trace((ok, ingress), DROPPED), {**away, "receiver": drops}) == ""
    for trace, receiver in ((Trace((ok,), FORWARDED), drops), (Trace((ok, ingress), DROPPED), passes)):
        told = compare_kernel(trace, {**away, "receiver": receiver})
        assert told == f"the objects say {trace.verdict}, but the kernel of n2 does not"
    untried = {**away, "receiver": {"node": "n2", "message": "not tried: no response"}}
    assert compare_kernel(Trace((ok,), FORWARDED), untried) == ""


def test_a_real_packet_is_followed_by_its_port_and_by_new_drops() -> None:
    now, old = meta.format_time(time.time()), meta.format_time(time.time() - 60)
    own = {"verdict": "forwarded", "node": "n1", "end": now, "source": {"port": 62_000}}
    other, dropped = {**own, "source": {"port": 40_000}}, {**own, "verdict": "dropped", "source": {}}
    followed = follow({"sourcePort": 62_000}, [own, other, dropped, {**dropped, "end": old}])
    assert followed.flows == [own, dropped] and followed.verdict == "dropped"
    assert [row[:2] for row in followed.rows()] == [
        ("live", "no reply"),
        ("live", "forwarded"),
        ("live", "dropped"),
    ]


def test_a_real_packet_is_compared_with_what_should_be() -> None:
    accepted = FollowedPacket({"sourcePort": 1, "reply": "accepted", "milliseconds": 0.4}, [])
    silent = FollowedPacket({"sourcePort": 1}, [])
    assert compare_live(Trace((), FORWARDED), accepted) == ""
    assert (
        compare_live(Trace((), DROPPED), accepted)
        == "the objects say dropped, but a real packet was forwarded"
    )
    assert compare_live(Trace((), FORWARDED), silent) == "", "a server may be silent"
    denied = FollowedPacket({"sourcePort": 1, "reply": "unreachable"}, [flow("dropped")])
    assert (
        compare_live(Trace((), FORWARDED), denied)
        == "the objects say forwarded, but a real packet was dropped"
    )
    assert compare_live(Trace((), DEPENDS), denied) == ""


def test_flows_of_a_service_are_found_on_the_node_of_the_backend_too() -> None:
    found = Trace((), FORWARDED, ("10.96.0.7", 80), (("10.0.0.9", 8080),))
    near = {
        "destination": {"address": "10.0.0.8", "port": 8080},
        "service": {"address": "10.96.0.7", "port": 80},
    }
    far: Object = {"destination": {"address": "10.0.0.9", "port": 8080}}
    assert is_to(near, found) and is_to(far, found)
    assert not is_to({"destination": {"address": "10.0.0.9", "port": 22}}, found)
    assert is_to(far, Trace((), FORWARDED, ("10.0.0.9", 0))), "without a port, all of them"

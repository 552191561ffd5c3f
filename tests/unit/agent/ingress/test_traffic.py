"""Bytes of ingresses are counted once, on open and closed connections."""

from msgspec import Struct

from alcove.agent.ingress.traffic import IngressTraffic, RelayedBytes


class Connection(Struct, eq=False):
    sent_bytes: int = 0
    received_bytes: int = 0


def test_what_was_relayed_is_taken_once() -> None:
    traffic, lasting, short = IngressTraffic(), Connection(), Connection()
    traffic.opened("red", lasting)
    traffic.opened("red", short)
    lasting.sent_bytes, short.received_bytes = 10, 7
    traffic.closed(short)
    traffic.closed(short)
    assert traffic.take() == {"red": RelayedBytes(10, 7)}
    assert traffic.take() == {}
    lasting.sent_bytes = 15
    traffic.closed(lasting)
    assert traffic.take() == {"red": RelayedBytes(5, 0)}

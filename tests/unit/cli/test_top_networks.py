"""`alcove top networks`: rates of connections that one or two nodes have seen."""

from alcove.api.objects import Object
from alcove.cli.top_networks import loads


def flow(
    node: str, sent: int, verdict: str = "forwarded", start: str = "t0", port: int = 80, **more: object
) -> Object:
    return {
        "metadata": {"tenant": "red"},
        "network": "own",
        "node": node,
        "protocol": "TCP",
        "verdict": verdict,
        "source": {"address": "10.0.0.1", "port": 4000},
        "destination": {"address": "10.0.0.2", "port": port},
        "start": start,
        "bytesSent": 100 * sent,
        "bytesReceived": 50 * sent,
        "packetsSent": sent,
        **more,
    }


def test_a_connection_counts_once_and_by_what_was_added() -> None:
    before = [flow("n1", 10), flow("n2", 9), flow("n1", 7, port=81)]
    after = [flow("n1", 14), flow("n2", 14), flow("n1", 2, port=81, start="t1")]
    load = loads(before, after)["red", "own"]
    assert (load.connections, load.bytes, load.packets) == (2, 150 * (4 + 2), 4 + 2)


def test_drops_are_counted_by_reason() -> None:
    before = [flow("n1", 3, "dropped", reason="PolicyIngress")]
    after = [
        flow("n1", 8, "dropped", reason="PolicyIngress"),
        flow("n2", 1, "dropped", reason="RateLimit", port=81),
    ]
    load = loads(before, after)["red", "own"]
    assert load.drops == {"PolicyIngress": 5, "RateLimit": 1}
    assert load.connections == 0

"""Metrics of a node: pods, dropped packets, the end of its certificate."""

from alcove.agent.metrics import AgentMetrics
from alcove.dataplane.drops import DropCount, DropReason


def test_drops_are_counted_by_reason() -> None:
    metrics = AgentMetrics()
    metrics.pods = lambda: 3
    assert "alcove_agent_pods 3.0" in metrics.text().decode()
    metrics.drops = lambda: {DropReason.SPOOFED_ADDRESS: DropCount(5, 700)}
    message = metrics.text().decode()
    assert 'alcove_drops_packets_total{reason="spoofed_address"} 5.0' in message
    assert 'alcove_drops_bytes_total{reason="spoofed_address"} 700.0' in message


def test_the_expiration_of_the_certificate_is_exposed_once_it_is_known() -> None:
    metrics = AgentMetrics()
    assert "certificate" not in metrics.text().decode()
    metrics.certificate_ends = lambda: 1.8e9
    assert "alcove_agent_certificate_expiration_seconds 1.8e+09" in metrics.text().decode()

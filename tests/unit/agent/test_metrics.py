"""Metrics of a node: pods, dropped packets, the end of its certificate."""

from alcove.agent.metrics import NETWORKS_SHOWN, AgentMetrics, NetworkCounts
from alcove.dataplane.drops import DropCount, DropReason


def test_drops_are_counted_by_reason() -> None:
    metrics = AgentMetrics()
    metrics.pods = lambda: 3
    assert "alcove_agent_pods 3.0" in metrics.text().decode()
    metrics.drops = lambda: {DropReason.SPOOFED_ADDRESS: DropCount(5, 700)}
    message = metrics.text().decode()
    assert 'alcove_drops_packets_total{reason="spoofed_address"} 5.0' in message
    assert 'alcove_drops_bytes_total{reason="spoofed_address"} 700.0' in message


def test_only_the_busiest_networks_have_series() -> None:
    metrics = AgentMetrics()
    counts = [
        NetworkCounts(f"t{number}", "own", number, 100 - number) for number in range(NETWORKS_SHOWN + 1)
    ]
    metrics.networks = lambda: counts
    message = metrics.text().decode()
    assert message.count("alcove_network_connections_total{") == NETWORKS_SHOWN
    assert f'alcove_network_connections_total{{network="own",tenant="t{NETWORKS_SHOWN}"}}' in message
    assert 'alcove_network_drops_total{network="own",tenant="t0"} 100.0' in message
    assert 'connections_total{network="own",tenant="t0"}' not in message


def test_the_expiration_of_the_certificate_is_exposed_once_it_is_known() -> None:
    metrics = AgentMetrics()
    assert "certificate" not in metrics.text().decode()
    metrics.certificate_ends = lambda: 1.8e9
    assert "alcove_agent_certificate_expiration_seconds 1.8e+09" in metrics.text().decode()


def test_exported_flows_are_counted_by_export() -> None:
    metrics = AgentMetrics()
    assert "alcove_exported_flows_total{" not in metrics.text().decode()
    metrics.exported_flows = lambda: {("file", "sent"): 7, ("otlp", "dropped"): 2}
    message = metrics.text().decode()
    assert 'alcove_exported_flows_total{export="file",result="sent"} 7.0' in message
    assert 'alcove_exported_flows_total{export="otlp",result="dropped"} 2.0' in message

"""Starts the exports of flows that the node is configured with."""

from __future__ import annotations

import time

from alcove.agent.network.flow_export import OPENED_MAX, FlowExporter, FlowSink, JsonLinesFile
from alcove.agent.network.flow_follower import RingFollower
from alcove.agent.network.flow_reports import FlowSelection
from alcove.agent.network.traffic import TrafficReader
from alcove.processes.agent import AgentProcess


def start(agent: AgentProcess, traffic: TrafficReader) -> None:
    sinks = _sinks(agent)
    if not sinks:
        return
    follower = RingFollower(traffic, None, None, FlowSelection(since=time.time(), limit=OPENED_MAX))
    exporter = FlowExporter(follower, traffic.all_flows, list(sinks.values()))
    agent.metrics.exported_flows = lambda: {
        (name, result): count
        for name, sink in sinks.items()
        for result, count in (("sent", sink.sent), ("dropped", sink.dropped + exporter.left_out))
    }
    agent.tasks.restart("export of flows", exporter.run)


def _sinks(agent: AgentProcess) -> dict[str, FlowSink]:
    config = agent.config
    sinks: dict[str, FlowSink] = {}
    if config.flows_file is not None:
        sinks["file"] = JsonLinesFile(config.name, config.flows_file)
    if config.flows_collector is not None:
        # Not imported above: it needs a package that most nodes do not have.
        from alcove.agent.network.otlp_sender import OtlpSender

        sender = OtlpSender(config.flows_collector, config.name)
        agent.tasks.restart("flows to the collector", sender.run)
        sinks["otlp"] = sender
    return sinks

"""Starts the exports of flows that the node is configured with."""

from __future__ import annotations

from alcove.agent.network.flow_export import FlowExporter, JsonLinesFile, ReadFlows, WriteFlows
from alcove.processes.agent import AgentProcess


def start(agent: AgentProcess, read: ReadFlows) -> None:
    config = agent.config
    exports: list[WriteFlows] = []
    if config.flows_file is not None:
        exports.append(JsonLinesFile(config.name, config.flows_file).write)
    if config.flows_collector is not None:
        # Not imported above: it needs a package that most nodes do not have.
        from alcove.agent.network.otlp_sender import OtlpSender

        sender = OtlpSender(config.flows_collector, config.name)
        agent.metrics.exported_flows = lambda: {"sent": sender.sent, "dropped": sender.dropped}
        agent.tasks.restart("flows to the collector", sender.run)
        exports.append(sender.offer)
    if exports:
        agent.tasks.restart("export of flows", FlowExporter(read, exports).run)

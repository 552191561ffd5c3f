"""Columns of flows, and of those that were dropped."""

from msgspec.structs import replace

from alcove.api.columns.base import NAME, WIDE, at, since
from alcove.api.kind import PrinterColumn
from alcove.api.objects import Object


def _bytes(flow: Object, _now: float) -> str:
    return f"{flow.get('bytesSent', 0)}/{flow.get('bytesReceived', 0)}"


def _packets(flow: Object, _now: float) -> str:
    return f"{flow.get('packetsSent', 0)}/{flow.get('packetsReceived', 0)}"


def end_text(end: Object) -> str:
    """`namespace/name:port` of a pod or service, else its address and port."""
    name = end.get("address", "")
    if end.get("name"):
        name = f"{end.get('namespace', '')}/{end['name']}"
    elif end.get("kind") == "Gateway":
        name = "gateway"
    elif ":" in name:
        name = f"[{name}]"
    port = end.get("port", 0)
    return f"{name or 'unknown'}:{port}" if port else name or "unknown"


def _source(flow: Object, _now: float) -> str:
    return end_text(flow.get("source") or {})


def _destination(flow: Object, _now: float) -> str:
    """The service that was dialed, then the backend."""
    target = end_text(flow.get("destination") or {})
    return f"{end_text(flow['service'])} → {target}" if flow.get("service") else target


def _decided_by(flow: Object, _now: float) -> str:
    """The policies that decided, or the reason of a drop."""
    if flow.get("message"):
        return str(flow["message"])
    return ", ".join(dict.fromkeys(each.get("policy") or "" for each in flow.get("policies") or ()))


FLOW = (
    replace(NAME, priority=WIDE),
    PrinterColumn("Source", _source, description="Pod that opened the connection, and its port."),
    PrinterColumn("Destination", _destination, description="Service and pod, or address, and port."),
    PrinterColumn("Protocol", at("protocol"), description="Protocol."),
    PrinterColumn("Verdict", at("verdict"), description="forwarded or dropped."),
    PrinterColumn("Bytes", _bytes, description="Bytes sent and received by the source."),
    PrinterColumn("Packets", _packets, description="Packets sent and received by the source.", priority=WIDE),
    PrinterColumn("Flags", at("tcpFlags"), description="TCP flags that were seen.", priority=WIDE),
    PrinterColumn("Direction", at("direction"), description="As the node sees it.", priority=WIDE),
    PrinterColumn("Node", at("node"), description="Node that has seen it.", priority=WIDE),
    PrinterColumn("Started", since("start"), description="Time since the first packet.", priority=WIDE),
    PrinterColumn("Last", since("end"), description="Time since the last packet."),
    PrinterColumn("Policy", _decided_by, description="Policies that allow it, or why it was dropped."),
)

DROP = (
    PrinterColumn("Last", since("end"), description="Time since the last packet."),
    PrinterColumn("Source", _source, description="Pod that sent the packets."),
    PrinterColumn("Packets", at("packetsSent"), "integer", description="Number of dropped packets."),
    PrinterColumn("Reason", at("reason"), description="Why, in one word."),
    PrinterColumn("Node", at("node"), description="Node that dropped them.", priority=WIDE),
    PrinterColumn("Message", at("message"), description="Why."),
)

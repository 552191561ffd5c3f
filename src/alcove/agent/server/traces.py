"""GET of a trace: which packet is to be tried."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from alcove.agent.podkey import PodKey
from alcove.agent.server.requests import NodeRequest
from alcove.api import destinations
from alcove.api.destinations import Address
from alcove.api.errors import BadRequest
from alcove.dataplane.model import Protocol

TRACED_PROTOCOLS = ("TCP", "UDP", "SCTP")
LIVE_PROTOCOLS = ("TCP", "UDP")


class TracedPacket(Struct, frozen=True):
    """The first packet of a connection: one that the pod would send, or, with a source, one that it would receive."""

    pod: PodKey
    address: Address
    """Of the destination."""
    port: int
    protocol: Protocol
    source: Address | None = None
    sender: str = ""
    """The node that would send it here."""
    is_live: bool = False
    """It is sent as well."""


def parse(request: NodeRequest, pod: PodKey) -> TracedPacket:
    """Raises BadRequest."""
    address, protocol = destinations.parse(request.first("address")), request.first("protocol")
    port = request.number("port") or 0
    if address is None or protocol not in TRACED_PROTOCOLS or port >= 1 << 16:
        raise BadRequest("query parameters address, port and protocol must be those of a destination")
    source, sender = request.first("source"), request.first("sender")
    packet = TracedPacket(pod, address, port, Protocol[protocol], destinations.parse(source), sender)
    if source and (packet.source is None or packet.source.version != address.version or not sender):
        raise BadRequest("query parameters source and sender must be those of a packet from another node")
    if request.flag("live"):
        if source or protocol not in LIVE_PROTOCOLS:
            raise BadRequest(f"only packets of {' and '.join(LIVE_PROTOCOLS)} that the pod sends can be live")
        return replace(packet, is_live=True)
    return packet

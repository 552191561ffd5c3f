"""Looks up names as a pod of this node would: by its search list, at the real DNS server of its network, and says whether the
kernel lets the pod's packets to that server pass. Nothing is sent, except by the server upstream."""

from collections.abc import Iterable
from ipaddress import ip_address

from alcove.agent.network.attachment import Attachment
from alcove.agent.network.packet_tracer import PacketTracer
from alcove.agent.network.reconciler import NetworkReconciler
from alcove.agent.network.services import DNS_PORT
from alcove.agent.podkey import PodKey
from alcove.agent.server.traces import TracedPacket
from alcove.api.errors import ApiError, BadRequest, NotFound
from alcove.api.node_api import NameAnswer
from alcove.dataplane.model import Protocol
from alcove.dns import question
from alcove.dns.model import NetworkId
from alcove.dns.names import BadName, Name, name_of

ADDRESSES_MAX = 2_000
"""Addresses of a name in one answer."""
_NO_SERVER = "the network's DNS server is not running on this node"
_REASONS = {
    "NOERROR": "the name has no addresses",
    "NXDOMAIN": "there is no such name (NXDOMAIN)",
    "": _NO_SERVER,
}


class NameResolver:
    def __init__(self, reconciler: NetworkReconciler, tracer: PacketTracer) -> None:
        self._reconciler = reconciler
        self._tracer = tracer

    async def look_up(self, key: PodKey, name: str) -> NameAnswer:
        """Raises BadRequest, NotFound."""
        record = self._reconciler.records.get(key)
        view = self._reconciler.views.views.get(record.plugs[0].vni) if record and record.plugs else None
        if record is None or view is None:
            raise NotFound(f'pod "{key.name}" has no network on this node')
        domain = record.attachment.domain
        domains = (f"{key.namespace}.svc.{domain}", f"svc.{domain}", domain)
        result = ""
        found: list[str] = []
        names = question.searched(name, domains) if name else []
        for full, encoded in _encoded(names).items():
            found, result = await self._ask(view.names.zone.network, encoded)
            if found:
                name = full
                break
        server = next(iter(record.attachment.nameservers), "")
        return NameAnswer(
            name,
            tuple(found[:ADDRESSES_MAX]),
            "" if found else _REASONS.get(result, f"the server has failed ({result})"),
            server,
            await self._denial(key, record.attachment) if server else "",
        )

    async def _ask(self, network: NetworkId, name: Name) -> tuple[list[str], str]:
        """The addresses of a full name, of both families, and the code of the last reply; empty if there was none."""
        found: list[str] = []
        result = ""
        for kind in question.ADDRESS_TYPES:
            reply = await self._reconciler.dns.ask(network, question.encode(name, kind))
            if reply is None:
                return [], ""
            result = question.rcode_name(reply)
            try:
                found += map(str, question.addresses(reply))
            except ValueError:
                result = "FORMERR"  # Servers outside may answer anything.
        return found, result

    async def _denial(self, key: PodKey, attachment: Attachment) -> str:
        packet = TracedPacket(key, ip_address(attachment.nameservers[0]), DNS_PORT, Protocol.UDP)
        try:
            traced = await self._tracer.trace(packet)
        except ApiError:
            return ""  # It could not be tried.
        return traced.message if traced.verdict == "dropped" else ""


def _encoded(names: Iterable[str]) -> dict[str, Name]:
    """Without those that are too long, as resolvers leave them out. Raises BadRequest if there are no others."""
    encoded = {}
    for name in names:
        try:
            encoded[name] = name_of(name)
        except (BadName, UnicodeEncodeError):
            continue
    if not encoded:
        raise BadRequest("query parameter name must be a DNS name")
    return encoded

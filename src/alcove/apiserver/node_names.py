"""The names for which a node may have a serving certificate: its own name, and the addresses of its Node object
that no other node has."""

from collections.abc import Iterable
from ipaddress import ip_address

from cryptography import x509

from alcove.api import objects
from alcove.api.ids import SYSTEM
from alcove.api.objects import Object
from alcove.api.resources import NODES
from alcove.apiserver.reader import CacheReader


def refusal(reader: CacheReader, node: str, names: Iterable[x509.GeneralName]) -> str:
    """Why the node may not have a serving certificate for these names; empty if it may."""
    registered = reader.get(SYSTEM, NODES, "", node)
    if registered is None:
        return f'node "{node}" is not registered'
    own = _addresses(registered)
    requested = set()
    for name in names:
        if isinstance(name, x509.DNSName) and name.value == node:
            continue
        if not isinstance(name, x509.IPAddress) or str(name.value) not in own:
            return f'"{name.value}" is neither the name nor an address of the node "{node}"'
        if not ip_address(str(name.value)).is_loopback:
            requested.add(str(name.value))
    for other in reader.list(SYSTEM, NODES):
        if objects.name(other) != node and (shared := requested & _addresses(other)):
            # A node writes its own addresses, so they prove nothing if another node has them too.
            return f'"{min(shared)}" is an address of another node too'
    return ""


def _addresses(node: Object) -> set[str]:
    """The node's addresses in canonical form, without host names."""
    found = set()
    for each in objects.get(node, "status", "addresses", default=[]):
        try:
            found.add(str(ip_address(each.get("address", ""))))
        except ValueError:
            continue
    return found

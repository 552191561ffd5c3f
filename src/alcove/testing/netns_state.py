"""What a network namespace has, as `ip` and `nft` tell it: addresses, routes, neighbours and address translation.

Kept apart from the product's own netlink code, so that tests can compare the one with the other.
"""

import json
import re
import subprocess
from typing import Any

from msgspec import Struct

from alcove.dataplane.namespaces import path_of

_BATCH = "link show\naddr show\nroute show\nneigh show nud permanent\n"
_TRANSLATION = re.compile(r"ip6? daddr (\S+) (tcp|udp|sctp) dport (\d+) .*?dnat (?:ip6? )?to (\S+)")


class NamespaceState(Struct, frozen=True):
    """Links are by name. Loopback, link-local addresses and the kernel's own routes are left out."""

    addresses: dict[str, set[str]]
    """With prefix length; links without an address have an empty set."""
    routes: dict[str, set[str]]
    """Static ones: `10.0.0.0/16`, `default via 169.254.64.0`."""
    neighbors: dict[str, set[str]]
    """Permanent ones."""


class NamespaceGone(LookupError):
    """The namespace does not exist, or was removed while it was read."""


def read_state(namespace: str) -> NamespaceState:
    """Raises NamespaceGone."""
    found = [_family(namespace, family) for family in ("-4", "-6")]
    links, with_addresses, routes, neighbors = (
        [one for each in found for one in each[part] if one] for part in range(4)
    )
    addresses: dict[str, set[str]] = {link["ifname"]: set() for link in links if link["ifname"] != "lo"}
    for link in with_addresses:
        if link["ifname"] != "lo":
            addresses[link["ifname"]] |= {
                f"{one['local']}/{one['prefixlen']}" for one in link["addr_info"] if one["scope"] == "global"
            }
    return NamespaceState(addresses, _routes(routes), _neighbors(neighbors))


def _family(namespace: str, family: str) -> list[Any]:
    """One process for all, as there are many namespaces: each line of a batch is answered by one document."""
    return _documents(_run(namespace, ("ip", family, "-j", "-batch", "-"), _BATCH))


def _run(namespace: str, command: tuple[str, ...], text: str = "") -> str:
    words = ["nsenter", f"--net={path_of(namespace)}", *command]
    completed = subprocess.run(words, input=text, text=True, capture_output=True, check=False)
    if completed.returncode:
        raise NamespaceGone(f"{' '.join(command)} in {namespace}: {completed.stderr.strip()}")
    return completed.stdout


def translations(namespace: str) -> dict[tuple[str, str, int], str]:
    """Where packets to an address, protocol and port are sent to instead. Raises NamespaceGone."""
    text = _run(namespace, ("nft", "list", "ruleset"))
    return {(found[1], found[2], int(found[3])): found[4] for found in _TRANSLATION.finditer(text)}


def _documents(text: str) -> list[Any]:
    decoder, found, at = json.JSONDecoder(), [], 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        document, at = decoder.raw_decode(text, at)
        found.append(document)
    return found


def _routes(found: list[dict[str, Any]]) -> dict[str, set[str]]:
    routes: dict[str, set[str]] = {}
    for one in found:
        if one.get("protocol") == "static":
            via = f" via {one['gateway']}" if "gateway" in one else ""
            routes.setdefault(one["dev"], set()).add(f"{one['dst']}{via}")
    return routes


def _neighbors(found: list[dict[str, Any]]) -> dict[str, set[str]]:
    neighbors: dict[str, set[str]] = {}
    for one in found:
        neighbors.setdefault(one["dev"], set()).add(one["dst"])
    return neighbors

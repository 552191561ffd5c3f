"""Compares the BPF maps of a node, and the rules of its gateways, with what the cluster's objects say.

What is expected is computed here from objects, not by the agent's code: only the layouts of the maps are shared.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from ipaddress import IPv4Address, ip_address
from typing import Any

from msgspec import Struct

from alcove.api.kinds.core.networks import network_of
from alcove.api.objects import Object
from alcove.dataplane import namespaces
from alcove.dataplane.address import Address, unpack
from alcove.dataplane.bpf import Map
from alcove.dataplane.loader import pins_folder
from alcove.dataplane.maps import (
    SERVICE_DIRECT,
    SHAPES,
    EndpointFlag,
    MapName,
    PortFlag,
    RouteKind,
    layout_version,
)
from alcove.testing.cluster import RealNode, condition
from alcove.testing.nodes import BPF_ROOT
from alcove.testing.soak_state import ClusterState, owner_uid

HOST_BITS = 32 + 128
"""Length of a route's prefix with one address: the VNI and all of the address."""
ANY_NODE = ip_address("0.0.0.0")
TCP = 6
DNAT = re.compile(r"daddr (\S+) tcp dport (\d+) .*dnat to")

ServiceAddress = tuple[int, Address, int]
"""VNI, address, port."""


class MapEntry(Struct, frozen=True):
    key: dict[str, Any]
    value: dict[str, Any]


class NodeMaps:
    """The entries of all maps with a desired state, as they are now."""

    def __init__(self, node: RealNode) -> None:
        self._entries = {name: _read(node, name) for name in MapName}

    def __getitem__(self, name: MapName) -> list[MapEntry]:
        return self._entries[name]


def _read(node: RealNode, name: MapName) -> list[MapEntry]:
    shape = SHAPES[name]
    path = pins_folder(BPF_ROOT, node.instance) / f"maps-{layout_version()}" / name.value
    opened = Map.pinned(path, shape.key.size, shape.value.size)
    try:
        # All elements of an array always exist; those that are all zeros are unused.
        found = {key: raw for key, raw in opened.items().items() if not shape.is_array or any(raw)}
    finally:
        os.close(opened.fd)
    return [MapEntry(_fields(shape.key, key), _fields(shape.value, raw)) for key, raw in found.items()]


def _fields(layout: Any, raw: bytes) -> dict[str, Any]:
    fields: dict[str, Any] = layout.unpack(raw)
    for name, value in fields.items():
        if isinstance(value, bytes) and len(value) == 16:
            fields[name] = unpack(value)
        elif isinstance(value, bytes) and len(value) == 2:
            fields[name] = int.from_bytes(value, "big")
    return fields


class ExpectedServices:
    """Where the services of the networks on one node are reached, by the objects."""

    def __init__(self, state: ClusterState, node: RealNode, vnis: set[int]) -> None:
        self.entries: dict[ServiceAddress, set[Address] | None] = {}
        """With the addresses of its backends; None where this is not computed."""
        self.external: set[tuple[int, Address]] = set()
        """Addresses outside of the network at which its own pods find a service, each with the VNI."""
        self.doors: dict[tuple[Address, int], int] = {}
        """External address and port → VNI."""
        self._node = ip_address(node.address)
        vni_of = {
            (each["metadata"]["tenant"], each["metadata"]["name"]): (each.get("status") or {}).get("vni")
            for each in state.networks
        }
        self._gateways = {
            each["spec"]["vni"]
            for each in state.of_type("gateway")
            if each["spec"].get("droplet") == node.name and each["spec"].get("ip")
        }
        for service in state.services:
            vni = vni_of.get((service["metadata"]["tenant"], network_of(service)))
            if vni in vnis and service["spec"].get("clusterIP") not in ("", "None", None):
                self._add(state, service, vni)

    def _add(self, state: ClusterState, service: Object, vni: int) -> None:
        spec = service["spec"]
        is_local = spec.get("externalTrafficPolicy") == "Local"
        ingress = ((service.get("status") or {}).get("loadBalancer") or {}).get("ingress") or ()
        backends = _backends(state, service)
        for port in spec.get("ports") or ():
            if (port.get("protocol") or "TCP") != "TCP":
                continue
            self.entries[vni, ip_address(spec["clusterIP"]), port["port"]] = backends
            doors = [(ip_address(each["ip"]), port["port"]) for each in ingress]
            if port.get("nodePort"):
                self.entries[vni, ANY_NODE, port["nodePort"]] = backends
                doors.append((self._node, port["nodePort"]))
            if is_local:
                self.entries.update({(vni, *door): None for door in doors})
                self.external.update((vni, address) for address, _ in doors)
            if is_local or vni in self._gateways:
                self.doors.update(dict.fromkeys(doors, vni))


def _backends(state: ClusterState, service: Object) -> set[Address] | None:
    """Addresses of the ready pods that the service selects; None for a service without a selector."""
    wanted, metadata = service["spec"].get("selector"), service["metadata"]
    if not wanted:
        return None
    return {
        ip_address(each["status"]["podIP"])
        for each in state.pods
        if each["metadata"]["tenant"] == metadata["tenant"]
        and each["metadata"]["namespace"] == metadata["namespace"]
        and each["spec"].get("network") == service["spec"].get("network")
        and wanted.items() <= (each["metadata"].get("labels") or {}).items()
        and condition(each, "Ready") == "True"
    }


def map_faults(state: ClusterState, node: RealNode, vnis: set[int], links: dict[str, int]) -> Iterator[str]:
    """`vnis` are the networks that have pods on this node, `links` the indexes of its links by name."""
    maps = NodeMaps(node)
    expected = ExpectedServices(state, node, vnis)
    found = [
        *_networks(state, node, vnis, maps),
        *_ports(state, node, vnis, links, maps),
        *_endpoints(state, node, links, maps),
        *_services(expected, maps),
        *_backend_sets(maps),
        *_policies(state, node, maps),
        *_doors(node, expected, maps),
    ]
    yield from (f"{node.name}: {each}" for each in found)


def _differ(what: str, actual: set[Any], expected: set[Any]) -> Iterator[str]:
    if actual - expected:
        yield f"{what}: {sorted(map(str, actual - expected))} should not be there"
    if expected - actual:
        yield f"{what}: {sorted(map(str, expected - actual))} missing"


def _networks(state: ClusterState, node: RealNode, vnis: set[int], maps: NodeMaps) -> Iterator[str]:
    served = vnis | state.served_vnis(node.name)
    held = {each.key["vni"] for each in maps[MapName.NETWORKS]}
    yield from _differ("networks", held, served)
    yield from _differ(
        "networks of routes", {each.key["vni"] for each in maps[MapName.ROUTES]} - served, set()
    )
    slots = [each.value["word"] for each in maps[MapName.NETWORKS]]
    if len(slots) != len(set(slots)):
        yield f"two networks share a memory: {slots}"
    others = {
        IPv4Address(each["spec"]["ip"]).packed
        for each in state.droplets
        if each["metadata"]["name"] != node.name and each["spec"].get("ip")
    }
    yield from _differ("nodes", {each.key["address"] for each in maps[MapName.NODES]}, others)


def _ports(
    state: ClusterState, node: RealNode, vnis: set[int], links: dict[str, int], maps: NodeMaps
) -> Iterator[str]:
    ports = [each.value for each in maps[MapName.PORTS]]
    own = {links[each] for each in links if each.startswith((f"{node.instance}p", f"{node.instance}g"))}
    yield from _differ("ports", {each["ifindex"] for each in ports}, own)
    yield from _differ("networks of ports", {each["vni"] for each in ports}, vnis)
    limited = {each["ifindex"] for each in ports if each["rate"]}
    yield from _differ("buckets", {each.key["index"] for each in maps[MapName.BUCKETS]}, limited)
    addresses = {
        (each["spec"]["vni"], ip_address(each["spec"]["ip"]))
        for each in state.of_type("simple")
        if each["spec"].get("droplet") == node.name
    }
    pods = {(each["vni"], each["address4"]) for each in ports if not each["flags"] & PortFlag.GATEWAY}
    yield from _differ("addresses of ports", pods, addresses)


def _endpoints(state: ClusterState, node: RealNode, links: dict[str, int], maps: NodeMaps) -> Iterator[str]:
    """Every entry belongs to an address of the network on that node; all addresses on this node have one."""
    where = {
        (each["spec"]["vni"], ip_address(each["spec"]["ip"])): each["spec"].get("droplet")
        for kind in ("simple", "gateway")
        for each in state.of_type(kind)
        if each["spec"].get("ip")
    }
    addresses = {each["metadata"]["name"]: each["spec"].get("ip") for each in state.droplets}
    indexes, seen = set(links.values()), set()
    for entry in maps[MapName.ENDPOINTS]:
        key = (entry.key["vni"], entry.key["address"])
        is_here = bool(entry.value["flags"] & EndpointFlag.LOCAL)
        if is_here and entry.value["ifindex"] not in indexes:
            yield f"endpoint {key} at link {entry.value['ifindex']}, which is gone"
        if entry.value["flags"] & EndpointFlag.ANYCAST:
            continue  # The network's gateway, on each of its nodes.
        droplet = where.get(key)
        if droplet is None:
            yield f"endpoint {key}, which no pod has"
        elif is_here != (droplet == node.name):
            yield f"endpoint {key} is {'here' if is_here else 'elsewhere'}, but its pod is on {droplet}"
        elif not is_here and str(IPv4Address(entry.value["node"])) != addresses.get(droplet):
            yield f"endpoint {key} is at node {IPv4Address(entry.value['node'])}, but its pod on {droplet}"
        seen.add(key)
    # Gateways' own addresses follow their pods, so only pods are compared.
    here = {
        (each["spec"]["vni"], ip_address(each["spec"]["ip"]))
        for each in state.of_type("simple")
        if each["spec"].get("droplet") == node.name
    }
    yield from _differ("endpoints", here & seen, here)


# Services


def _services(expected: ExpectedServices, maps: NodeMaps) -> Iterator[str]:
    own = [
        each
        for each in maps[MapName.SERVICES]
        if each.key["proto"] == TCP and not each.value["flags"] & SERVICE_DIRECT
    ]
    found = {(each.key["vni"], each.key["address"], each.key["port"]): each.value["set"] for each in own}
    yield from _differ("services", set(found), set(expected.entries))
    backends: dict[int, set[Address]] = {}
    for entry in maps[MapName.BACKENDS]:
        backends.setdefault(entry.key["set"], set()).add(entry.value["address"])
    for key, addresses in expected.entries.items():
        if key in found and addresses is not None:
            yield from _differ(f"backends of {key}", backends.get(found[key], set()), addresses)
    routes = {
        (each.key["vni"], each.key["address"])
        for each in maps[MapName.ROUTES]
        if each.value["kind"] == RouteKind.SERVICE and each.key["prefix_bits"] == HOST_BITS
    }
    yield from _differ("routes to external addresses", routes, expected.external)


def _backend_sets(maps: NodeMaps) -> Iterator[str]:
    """Sets exist as long as a service has them, complete."""
    sets: dict[int, int] = {each.value["set"]: each.value["count"] for each in maps[MapName.SERVICES]}
    sizes: dict[MapName, dict[int, int]] = {}
    for name in (MapName.BACKENDS, MapName.MEMBERS):
        sizes[name] = {}
        for entry in maps[name]:
            sizes[name][entry.key["set"]] = sizes[name].get(entry.key["set"], 0) + 1
        wanted = {each for each in sets.items() if each[1]}
        yield from _differ(f"sizes of sets of {name.value}", set(sizes[name].items()), wanted)


# Policies, doors


def _policies(state: ClusterState, node: RealNode, maps: NodeMaps) -> Iterator[str]:
    ports = [each.value for each in maps[MapName.PORTS] if not each.value["flags"] & PortFlag.GATEWAY]
    used = {each[side] for each in ports for side in ("policy_in", "policy_out")}
    profiles = {each.key["profile"] for each in maps[MapName.POLICY_PEERS]}
    yield from _differ("policies that no pod has", profiles - used, set())
    classes = {each.value["named"] for each in maps[MapName.POLICY_PEERS]} - {0}
    yield from _differ(
        "classes of policies", {each.key["class"] for each in maps[MapName.POLICY_RULES]}, classes
    )
    isolated = {(each["metadata"]["tenant"], each["metadata"]["namespace"]) for each in state.policies}
    pods = {each["metadata"]["uid"]: each["metadata"] for each in state.pods}
    actual = {(each["vni"], each["address4"]): bool(each["policy_in"]) for each in ports}
    for endpoint in state.of_type("simple"):
        metadata, spec = pods.get(owner_uid(endpoint)), endpoint["spec"]
        key = (spec["vni"], ip_address(spec["ip"]))
        if metadata is not None and key in actual and spec.get("droplet") == node.name:
            wanted = (metadata["tenant"], metadata["namespace"]) in isolated
            if actual[key] != wanted:
                yield f"pod {metadata['name']} is {'' if actual[key] else 'not '}isolated"


def _doors(node: RealNode, expected: ExpectedServices, maps: NodeMaps) -> Iterator[str]:
    held = {(each.key["address"], each.key["port"]) for each in maps[MapName.DOORS]}
    yield from _differ("external ports", held, set(expected.doors))
    prefix = f"alcove-{node.instance}-"
    yield from _differ("rules of the exit", set(_forwarded(f"{prefix}exit")), set(expected.doors))
    for name in namespaces.names(f"{prefix}g"):
        vni = int(name.removeprefix(f"{prefix}g"), 16)
        wanted = sum(each == vni for each in expected.doors.values())
        if (found := len(_forwarded(name))) != wanted:
            yield f"{name} has rules for {found} external ports, its network has {wanted}"


def _forwarded(namespace: str) -> list[tuple[Address, int]]:
    """Addresses and ports that nftables rules of a namespace lead elsewhere."""
    command = ["nsenter", f"--net={namespaces.path_of(namespace)}", "nft", "-n", "list", "ruleset"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return [(ip_address(each[1]), int(each[2])) for each in DNAT.finditer(done.stdout)]

"""The underlay of local nodes: a bridge in its own namespace, a namespace per node, and egress through this
machine.

This machine itself gets one device, one nftables table and one setting (IP forwarding); traffic between nodes
never passes its firewall. Missing parts are created again; removal is complete.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import subprocess
from pathlib import Path

from alcove.agent.images.registry_dialer import targets_of
from alcove.dataplane import links, namespaces
from alcove.dataplane.errors import KernelRefused
from alcove.dataplane.namespaces import inside
from alcove.dataplane.netlink import Netlink
from alcove.processes.machine import cluster_numbers
from alcove.processes.machine.cluster import RANGE, LocalCluster, LocalNode

MTU = 1550
"""Leaves pods the usual 1500."""
BRIDGE = "br"
FORWARDING = Path("/proc/sys/net/ipv4/ip_forward")
FORWARDING_BEFORE = "forwarding"
"""File in a cluster's claim with the previous value of the setting."""


def make(cluster: LocalCluster) -> None:
    """Creates missing parts. Raises KernelRefused, OSError."""
    underlay = namespaces.make(cluster.underlay_namespace)
    try:
        _bridge(underlay)
        _uplink(cluster, underlay)
        for node in cluster.all_nodes():
            _node(cluster, node, underlay)
    finally:
        os.close(underlay)
    _forward(cluster)
    _nft(rules(cluster))


def remove(cluster: LocalCluster) -> None:
    """Removes everything of the cluster except its claim. Idempotent. Devices are deleted with their
    namespaces."""
    _nft(f"table ip {cluster.table}\ndelete table ip {cluster.table}\n")
    netlink = Netlink()
    try:
        # The namespace may outlive its name for a while: delete the device now.
        if (link := links.read_link(netlink, cluster.uplink)) is not None:
            netlink.do(links.delete_link(link.index))
    finally:
        netlink.close()
    for name in namespaces.names(f"alcove-{cluster.token}-"):
        namespaces.remove(name)
    _stop_forwarding(cluster)


def rules(cluster: LocalCluster) -> str:
    """The nftables rules: masquerading for egress, and what nodes may not reach."""
    link = cluster.uplink
    # Only at this address, which the exits of nodes keep from tenants' pods; they could reach the machine's others.
    named = (target for each in cluster.insecure_registries for target in targets_of(each))
    registries = sorted({port for host, port in named if host == str(cluster.gateway)})
    ports = ", ".join(map(str, (cluster.port, *registries)))
    return f"""\
table ip {cluster.table}
delete table ip {cluster.table}
table ip {cluster.table} {{
    chain out {{
        type nat hook postrouting priority srcnat
        ip saddr {cluster.underlay} oifname != "{link}" masquerade
    }}
    chain forward {{
        type filter hook forward priority filter
        iifname "{link}" ip daddr {RANGE} drop comment "other clusters"
        iifname "{link}" ip daddr 169.254.0.0/16 drop comment "cloud metadata service"
    }}
    chain in {{
        type filter hook input priority filter
        iifname != "{link}" accept
        ct state established,related accept
        tcp dport {{ {ports} }} ip daddr {cluster.gateway} accept comment "the API, registries"
        meta l4proto icmp accept
        meta l4proto {{ tcp, udp }} th dport 53 accept comment "this machine's resolver, if it has one"
        drop comment "tenants' traffic must not reach this machine's services"
    }}
}}
"""


def _bridge(underlay: int) -> None:
    with inside(underlay):
        netlink = Netlink()
        try:
            if links.read_link(netlink, BRIDGE) is None:
                netlink.do(links.bridge(BRIDGE))
        finally:
            netlink.close()
        # A plain switch: bridged frames must not pass netfilter.
        for family in ("ip", "ip6", "arp"):
            setting = Path(f"/proc/sys/net/bridge/bridge-nf-call-{family}tables")
            if setting.exists():
                setting.write_text("0")


def _uplink(cluster: LocalCluster, underlay: int) -> None:
    netlink = Netlink()
    try:
        if links.read_link(netlink, cluster.uplink) is None:
            macs = _mac(cluster, "uplink"), _mac(cluster, "switch")
            netlink.do(links.veth(cluster.uplink, macs[0], "uplink", macs[1], underlay, MTU))
        device = _link_index(netlink, cluster.uplink)
        # The underlay and the rules are IPv4 only: disable IPv6.
        setting = Path(f"/proc/sys/net/ipv6/conf/{cluster.uplink}/disable_ipv6")
        if setting.exists():
            setting.write_text("1")
        netlink.do(
            links.add_address(device, cluster.gateway, cluster.underlay.prefixlen), links.set_link(device)
        )
    finally:
        netlink.close()
    _attach_to_bridge(underlay, "uplink")


def _node(cluster: LocalCluster, node: LocalNode, underlay: int) -> None:
    namespace = namespaces.make(node.namespace)
    try:
        veth = f"n{node.number}"
        if not _has_link(namespace, "eth0"):
            _create_veth(cluster, node, underlay, veth, namespace)
        _attach_to_bridge(underlay, veth)
        _configure_node(cluster, node, namespace)
    finally:
        os.close(namespace)


def _create_veth(cluster: LocalCluster, node: LocalNode, underlay: int, veth: str, namespace: int) -> None:
    with inside(underlay):
        netlink = Netlink()
    try:
        # A leftover veth to a namespace that was removed but still exists.
        if (stale := links.read_link(netlink, veth)) is not None:
            netlink.do(links.delete_link(stale.index))
        macs = _mac(cluster, veth), _mac(cluster, node.name)
        netlink.do(links.veth(veth, macs[0], "eth0", macs[1], namespace, MTU))
    finally:
        netlink.close()


def _has_link(namespace: int, name: str) -> bool:
    with inside(namespace):
        netlink = Netlink()
    try:
        return links.read_link(netlink, name) is not None
    finally:
        netlink.close()


def _attach_to_bridge(underlay: int, veth: str) -> None:
    """Attaches the veth to the bridge."""
    with inside(underlay):
        netlink = Netlink()
    try:
        netlink.do(links.set_link(_link_index(netlink, veth), master=_link_index(netlink, BRIDGE)))
    finally:
        netlink.close()


def _configure_node(cluster: LocalCluster, node: LocalNode, namespace: int) -> None:
    with inside(namespace):
        netlink = Netlink()
    try:
        device, loopback = _link_index(netlink, "eth0"), _link_index(netlink, "lo")
        netlink.do(
            links.set_link(loopback),
            links.add_address(device, node.address, cluster.underlay.prefixlen),
            links.set_link(device),
            links.add_route(device, None, cluster.gateway, links.AF_INET),
        )
    finally:
        netlink.close()


def _link_index(netlink: Netlink, name: str) -> int:
    link = links.read_link(netlink, name)
    if link is None:
        raise KernelRefused(f"find link {name}", errno.ENODEV)
    return link.index


def _mac(cluster: LocalCluster, name: str) -> str:
    """A stable MAC address, so that neighbour caches stay valid after a restart."""
    digest = hashlib.blake2b(f"{cluster.token}/{name}".encode(), digest_size=5).digest()
    return "0e:" + digest.hex(":")


def _forward(cluster: LocalCluster) -> None:
    before = FORWARDING.read_text().strip()
    saved = cluster.run / FORWARDING_BEFORE
    if before == "0" or not saved.exists():
        saved.write_text(before)
    if before == "0":
        FORWARDING.write_text("1")


def _stop_forwarding(cluster: LocalCluster) -> None:
    """Restores the previous setting when the last cluster is removed."""
    saved = cluster.run / FORWARDING_BEFORE
    if not saved.exists() or saved.read_text() != "0":
        return
    others = cluster_numbers.others(cluster)
    if others:
        # Hand the previous value to another cluster: the last one restores it.
        (cluster.run.parent / others[0] / FORWARDING_BEFORE).write_text("0")
    elif FORWARDING.read_text().strip() == "1":
        FORWARDING.write_text("0")
    saved.unlink()


def _nft(text: str) -> None:
    program = shutil.which("nft", path="/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin")
    if program is None:
        raise FileNotFoundError(errno.ENOENT, "is not installed (package nftables)", "nft")
    completed = subprocess.run([program, "-f", "-"], input=text, capture_output=True, text=True, check=False)
    if completed.returncode:
        raise OSError(errno.EINVAL, f"nft refused the cluster's rules: {completed.stderr.strip()}")

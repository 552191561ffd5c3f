"""The underlay: a bridge in a namespace of its own, each node a namespace on it, and a way out through this
machine.

This machine itself has one link, one table of rules and one setting (forwarding) of it; what nodes send each
other never passes its firewall. Everything is made again where something is missing, and taken away whole.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import subprocess
from pathlib import Path

from alcove.dataplane import links, namespaces
from alcove.dataplane.errors import KernelRefused
from alcove.dataplane.namespaces import inside
from alcove.dataplane.netlink import Netlink
from alcove.processes.machine import cluster_numbers
from alcove.processes.machine.cluster import RANGE, LocalCluster, LocalNode

MTU = 1550
"""So that pods have the usual 1500."""
BRIDGE = "br"
FORWARDING = Path("/proc/sys/net/ipv4/ip_forward")
FORWARDING_BEFORE = "forwarding"
"""In a cluster's claim: what the setting was."""


def make(cluster: LocalCluster) -> None:
    """Everything that is missing. Raises KernelRefused, OSError."""
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
    """Idempotent: everything of the cluster but its claim. The namespaces' links end with them."""
    _nft(f"table ip {cluster.table}\ndelete table ip {cluster.table}\n")
    netlink = Netlink()
    try:
        # The namespace may outlive its name for a while: the link goes now.
        if (link := links.read_link(netlink, cluster.uplink)) is not None:
            netlink.do(links.delete_link(link.index))
    finally:
        netlink.close()
    for name in namespaces.names(f"alcove-{cluster.token}-"):
        namespaces.remove(name)
    _stop_forwarding(cluster)


def rules(cluster: LocalCluster) -> str:
    """What the machine's firewall gets: the way out, and what nodes may not reach on the way."""
    link = cluster.uplink
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
        iifname "{link}" ip daddr 169.254.0.0/16 drop comment "what a cloud tells this machine alone"
    }}
    chain in {{
        type filter hook input priority filter
        iifname != "{link}" accept
        ct state established,related accept
        tcp dport {cluster.port} ip daddr {cluster.gateway} accept comment "the API"
        meta l4proto icmp accept
        meta l4proto {{ tcp, udp }} th dport 53 accept comment "this machine's resolver, if it has one"
        drop comment "nodes carry tenants' traffic: this machine's own services are not for it"
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
        # A switch: netfilter does not look into its frames.
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
        device = _found(netlink, cluster.uplink)
        # The rules are for IPv4, and so is the underlay: there is no other way in.
        setting = Path(f"/proc/sys/net/ipv6/conf/{cluster.uplink}/disable_ipv6")
        if setting.exists():
            setting.write_text("1")
        netlink.do(
            links.add_address(device, cluster.gateway, cluster.underlay.prefixlen), links.set_link(device)
        )
    finally:
        netlink.close()
    _plug(underlay, "uplink")


def _node(cluster: LocalCluster, node: LocalNode, underlay: int) -> None:
    namespace = namespaces.make(node.namespace)
    try:
        port = f"n{node.number}"
        if not _has_link(namespace, "eth0"):
            _wire(cluster, node, underlay, port, namespace)
        _plug(underlay, port)
        _settle(cluster, node, namespace)
    finally:
        os.close(namespace)


def _wire(cluster: LocalCluster, node: LocalNode, underlay: int, port: str, namespace: int) -> None:
    with inside(underlay):
        netlink = Netlink()
    try:
        # To a namespace that lost its name, and ends in its own time.
        if (stale := links.read_link(netlink, port)) is not None:
            netlink.do(links.delete_link(stale.index))
        macs = _mac(cluster, port), _mac(cluster, node.name)
        netlink.do(links.veth(port, macs[0], "eth0", macs[1], namespace, MTU))
    finally:
        netlink.close()


def _has_link(namespace: int, name: str) -> bool:
    with inside(namespace):
        netlink = Netlink()
    try:
        return links.read_link(netlink, name) is not None
    finally:
        netlink.close()


def _plug(underlay: int, port: str) -> None:
    """The link becomes a port of the bridge."""
    with inside(underlay):
        netlink = Netlink()
    try:
        netlink.do(links.set_link(_found(netlink, port), master=_found(netlink, BRIDGE)))
    finally:
        netlink.close()


def _settle(cluster: LocalCluster, node: LocalNode, namespace: int) -> None:
    with inside(namespace):
        netlink = Netlink()
    try:
        device, loopback = _found(netlink, "eth0"), _found(netlink, "lo")
        netlink.do(
            links.set_link(loopback),
            links.add_address(device, node.address, cluster.underlay.prefixlen),
            links.set_link(device),
            links.add_route(device, None, cluster.gateway, links.AF_INET),
        )
    finally:
        netlink.close()


def _found(netlink: Netlink, name: str) -> int:
    link = links.read_link(netlink, name)
    if link is None:
        raise KernelRefused(f"find link {name}", errno.ENODEV)
    return link.index


def _mac(cluster: LocalCluster, what: str) -> str:
    """The same after a restart, so that neighbours need not learn anew."""
    digest = hashlib.blake2b(f"{cluster.token}/{what}".encode(), digest_size=5).digest()
    return "0e:" + digest.hex(":")


def _forward(cluster: LocalCluster) -> None:
    before = FORWARDING.read_text().strip()
    kept = cluster.run / FORWARDING_BEFORE
    if before == "0" or not kept.exists():
        kept.write_text(before)
    if before == "0":
        FORWARDING.write_text("1")


def _stop_forwarding(cluster: LocalCluster) -> None:
    """As it was before the first cluster, once the last has gone."""
    kept = cluster.run / FORWARDING_BEFORE
    if not kept.exists() or kept.read_text() != "0":
        return
    others = cluster_numbers.others(cluster)
    if others:
        # The debt passes on: whoever goes last puts it right.
        (cluster.run.parent / others[0] / FORWARDING_BEFORE).write_text("0")
    elif FORWARDING.read_text().strip() == "1":
        FORWARDING.write_text("0")
    kept.unlink()


def _nft(text: str) -> None:
    program = shutil.which("nft", path="/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin")
    if program is None:
        raise FileNotFoundError(errno.ENOENT, "is not installed (package nftables)", "nft")
    done = subprocess.run([program, "-f", "-"], input=text, capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(errno.EINVAL, f"nft refused the cluster's rules: {done.stderr.strip()}")

"""Megabytes through every path arrive as they were sent: segmentation offload and checksums are right."""

import hashlib
import os
import socket
import threading
from collections.abc import Iterator
from ipaddress import ip_address, ip_network

import pytest

from alcove.dataplane.drops import DropReason
from alcove.dataplane.model import (
    DataplaneService,
    PrefixBlock,
    Protocol,
    ServiceBackend,
    TrafficProfile,
    TrafficRule,
)
from alcove.testing.networks import LabNetwork, apply_networks
from alcove.testing.nodes import Lab, NamespacePod
from alcove.testing.probes import TIMEOUT, connect, tcp_server

VNI = 6501
DATA = os.urandom(3_000_000)


class Pipes:
    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        everybody = TrafficProfile(
            (TrafficRule((PrefixBlock(ip_network("10.0.0.0/8")), PrefixBlock(ip_network("fd00::/16")))),)
        )
        self.network = LabNetwork(VNI, pods=[])
        for node, name, host in ((0, "client", 11), (0, "near", 12), (1, "far", 13)):
            addresses = (f"10.0.1.{host}/24", f"fd00:0:0:1::{host}/64")
            self.network.pods.append(
                lab.nodes[node].add_pod(name, VNI, *addresses, ingress=everybody, egress=everybody)
            )
        self.client, self.near, self.far = self.network.pods
        services = []
        for number, pod in enumerate((self.client, self.near, self.far), 11):
            for vip, address in ((f"172.20.1.{number}", pod.address), (f"fd20::1:{number}", pod.address6)):
                services.append(
                    DataplaneService(
                        VNI, ip_address(vip), 80, Protocol.TCP, (ServiceBackend(ip_address(address), 8080),)
                    )
                )
        self.network.services = tuple(services)
        apply_networks(lab, self.network)


@pytest.fixture(scope="module")
def pipes() -> Iterator[Pipes]:
    with Lab(2) as lab:
        yield Pipes(lab)


def digest_of(near: socket.socket, into: list[str]) -> None:
    seen = hashlib.sha256()
    while chunk := near.recv(1 << 20):
        seen.update(chunk)
    into.append(seen.hexdigest())


def transfer(sender: socket.socket, receiver: socket.socket) -> bool:
    heard: list[str] = []
    reader = threading.Thread(target=digest_of, args=(receiver, heard))
    sender.settimeout(TIMEOUT)
    receiver.settimeout(TIMEOUT)
    reader.start()
    sender.sendall(DATA)
    sender.shutdown(socket.SHUT_WR)
    reader.join()
    return heard == [hashlib.sha256(DATA).hexdigest()]


@pytest.mark.parametrize("six", [False, True], ids=["IPv4", "IPv6"])
@pytest.mark.parametrize(
    ("where", "by"),
    [
        ("near", "directly"),
        ("far", "directly"),
        ("near", "a service"),
        ("far", "a service"),
        ("client", "a service"),
    ],
)
def test_both_ways_whole(pipes: Pipes, where: str, by: str, six: bool) -> None:
    server: NamespacePod = getattr(pipes, where)
    own = server.address6 if six else server.address
    last = own.split(":" if six else ".")[-1]
    target, port = (
        (own, 8080) if by == "directly" else ((f"fd20::1:{last}" if six else f"172.20.1.{last}"), 80)
    )
    with tcp_server(server.namespace, own, 8080) as listener:
        near = connect(pipes.client.namespace, target, port)
        assert near is not None
        far, _ = listener.accept()
        assert transfer(near, far)
        assert transfer(far, near)
        near.close()
        far.close()
    for node in pipes.lab.nodes:
        assert node.dropped(DropReason.ENCAPSULATION) == 0
        assert node.dropped(DropReason.REWRITE) == 0

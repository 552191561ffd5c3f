"""Captures through the API: a pod's own packets, within bounds, for those who may."""

import asyncio
import fcntl
import os
import socket
import struct
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from msgspec import Struct
from typer.testing import CliRunner

from alcove.agent.podkey import PodKey
from alcove.agent.runtime.hollow import HollowRuntime
from alcove.agent.server.capture import CapturePlace
from alcove.api import capture_bounds, captures
from alcove.api.errors import NotFound
from alcove.dataplane import namespaces
from alcove.dataplane.namespaces import inside
from alcove.processes.main import app
from alcove.testing.containers import ContainerLab
from alcove.testing.nodes import lacking
from alcove.testing.nodeserver import NodeRig
from alcove.testing.server import Caller, LocalServer, ServerResponse

pytestmark = [pytest.mark.root, pytest.mark.skipif(bool(lacking()), reason=lacking() or "-")]

CAPTURES = "/apis/sight.alcove.io/v1alpha1{}/namespaces/default/captures"
TO_PORT_9 = ["40 0 0 36", "21 0 1 9", "6 0 0 262144", "6 0 0 0"]
"""As `tcpdump -ddd` prints it for IPv4 without options: the half word at 36 is 9."""


class CapturedPacket(Struct, frozen=True):
    at: float
    data: bytes
    length: int


def parse(file: bytes) -> tuple[list[CapturedPacket], tuple[int, int] | None]:
    """Packets of a pcapng file, and how many were received and dropped, if it says so. Every block must be whole."""
    packets: list[CapturedPacket] = []
    counts = None
    while file:
        kind, length = struct.unpack_from("<II", file)
        body, (again,) = file[8 : length - 4], struct.unpack_from("<I", file, length - 4)
        assert again == length and length % 4 == 0
        match kind:
            case 0x0A0D0D0A:
                assert struct.unpack_from("<IH", body) == (0x1A2B3C4D, 1)
            case 1:
                assert struct.unpack_from("<H", body) == (1,)
                assert struct.pack("<HHB", 9, 1, 9) in body, "times are nanoseconds"
            case 6:
                _, high, low, size, whole = struct.unpack_from("<IIIII", body)
                packets.append(CapturedPacket((high << 32 | low) / 1e9, body[20 : 20 + size], whole))
            case 5:
                received, dropped = (struct.unpack_from("<Q", body, at)[0] for at in (16, 28))
                counts = received, dropped
        file = file[length:]
    return packets, counts


@pytest.fixture
def namespace() -> Iterator[int]:
    """A network namespace whose packets are those of its loopback device."""
    made = namespaces.make_unnamed()
    with inside(made), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        fcntl.ioctl(sock, 0x8914, struct.pack("16sH", b"lo", 0x1))  # SIOCSIFFLAGS: up
    yield made
    os.close(made)


@contextmanager
def talking(namespace: int, size: int = 100) -> Iterator[None]:
    """Datagrams to two ports, until the end of the block."""
    ended = threading.Event()

    def talk() -> None:
        with inside(namespace), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.bind(("127.0.0.1", 0))
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
                receiver.bind(("127.0.0.1", 9))
                while not ended.wait(0.01):
                    sender.sendto(b"hello" + bytes(size), ("127.0.0.1", 9))
                    sender.sendto(b"other" + bytes(size), ("127.0.0.1", 10))

    thread = threading.Thread(target=talk)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@pytest.fixture
async def rig(server: LocalServer, folder: Path, namespace: int) -> AsyncIterator[NodeRig]:
    """A node that has a pod of each tenant, and one that is not attached to a network."""
    made = NodeRig(server, ContainerLab(HollowRuntime(), folder), "captured")

    def find(key: PodKey) -> CapturePlace:
        if key.tenant != "acme" or key.name != "one":
            raise NotFound(f'pod "{key.name}" has no network of its own on this node')
        return CapturePlace(Path(f"/proc/{os.getpid()}/fd/{namespace}"), "lo")

    made.find_capture = find
    async with made:
        spec = {"nodeName": "captured", "containers": [{"name": "main", "image": "x"}]}
        names = [("acme", "one"), ("acme", "hosts"), ("beta", "one")]
        for tenant, name in names:
            path = f"/api/v1/tenants/{tenant}/namespaces/default/pods"
            body = {"metadata": {"name": name}, "spec": spec}
            created = await asyncio.to_thread(server.system.post, path, body)
            assert created.status == 201, created.body
            made.has_pod(created.json)
        yield made
        for tenant, name in names:
            path = f"/api/v1/tenants/{tenant}/namespaces/default/pods/{name}"
            await asyncio.to_thread(server.system.delete, path, {"gracePeriodSeconds": 0})


async def post(caller: Caller, tenant: str = "", **spec: object) -> ServerResponse:
    body = {"spec": {"pod": "one", **spec}}
    return await asyncio.to_thread(caller.post, CAPTURES.format(tenant), body)


async def test_alcove_writes_a_file_of_the_pods_packets(
    rig: NodeRig, server: LocalServer, namespace: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(server.as_tenant("acme").kubeconfig))
    words = ["capture", "one", "-o", str(tmp_path / "one.pcapng"), "--bytes", "5000", "--packet-bytes", "60"]
    began = time.time()
    with talking(namespace):
        done = await asyncio.to_thread(CliRunner().invoke, app, words)
    assert done.exit_code == 0, done.output
    file = (tmp_path / "one.pcapng").read_bytes()
    packets, counts = parse(file)
    assert 2_000 < len(file) < 5_500
    assert all(began - 1 < each.at < time.time() + 1 for each in packets)
    assert (60, 14 + 28 + 105) in {(len(each.data), each.length) for each in packets}
    assert any(each.data[42:47] == b"hello" for each in packets)
    assert counts is not None and counts[0] >= len(packets)


async def test_a_filter_and_the_time_bound_a_capture(
    rig: NodeRig, server: LocalServer, namespace: int
) -> None:
    acme = server.as_tenant("acme")
    with talking(namespace):
        chosen = await post(acme, filter=TO_PORT_9, seconds=2)
        none = await post(acme, filter=["6 0 0 0"], seconds=1)
    assert (chosen.status, chosen.headers["content-type"]) == (200, captures.CONTENT_TYPE)
    packets, _ = parse(chosen.body)
    assert packets and all(each.data[36:38] == b"\x00\x09" for each in packets)
    assert parse(none.body) == ([], (0, 0))


async def test_captures_of_others_and_without_bounds_are_refused(rig: NodeRig, server: LocalServer) -> None:
    acme = server.as_tenant("acme")
    for tenant in ("/tenants/beta", "/tenants/nobody", "/tenants/system"):
        assert (await post(acme, tenant)).status == 403
    assert (await post(acme, pod="two")).status == 404
    assert (await post(acme, pod="hosts")).status == 404, "the node's own packets are not the pod's"
    for bad in (
        {"seconds": -1},
        {"seconds": capture_bounds.SECONDS_MAX + 1},
        {"bytes": capture_bounds.BYTES_MAX + 1},
        {"packetBytes": capture_bounds.PACKET_BYTES_MAX + 1},
        {"filter": ["tcp port 80"]},
        {"filter": ["40 0 0 4294967296"]},
        {"filter": ["6 0 0 0"] * (captures.INSTRUCTIONS_MAX + 1)},
        {"filter": ["21 9 9 0"]},
    ):
        assert (await post(acme, **bad)).status == 400, bad


async def test_a_user_who_may_only_look_may_not_capture(rig: NodeRig, server: LocalServer) -> None:
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "viewer"}
    binding = {"metadata": {"name": "viewers"}, "roleRef": role, "subjects": [subject]}
    path = "/apis/rbac.authorization.k8s.io/v1/tenants/acme/clusterrolebindings"
    made = await asyncio.to_thread(server.system.post, path, binding)
    assert made.status in (201, 409)
    viewer = await asyncio.to_thread(server.as_tenant, "acme", "viewer")
    assert (await post(viewer)).status == 403

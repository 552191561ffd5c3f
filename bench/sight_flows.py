"""How many flows a node shows to whoever follows them, and what that costs.

One pod opens RATE_MAX flows a second, or as many as it can. The stream is the agent's own (`RingFollower`, `flow_stream.send`): every connection is read
with its ends and its time, LIMIT_DEFAULT of them a second are sent with names and counters, the others are counted.
"""

import asyncio
import contextlib
import ctypes
import statistics
import threading
import time
from collections.abc import Sequence
from ipaddress import ip_address
from typing import cast

import msgspec

from alcove.agent.network.flow_follower import RingFollower
from alcove.agent.network.flow_reports import FlowSelection, LocalPod, NetworkSnapshot
from alcove.agent.network.traffic import TrafficReader, report_network
from alcove.agent.podkey import PodKey
from alcove.agent.server import flow_stream
from alcove.api.ids import TenantId
from alcove.api.node_api import NodeFlows
from alcove.apiserver.sight.flows_api import LIMIT_DEFAULT
from alcove.client.keys import HOME, PlaneId
from alcove.dataplane.node_dataplane import MEMORY_ENTRIES
from alcove.dataplane.openings import EMPTY, OpeningRing, Openings
from alcove.network.endpoints import EndpointAllocation
from alcove.network.owners import OwnerRef
from alcove.network.policy import SelectingPolicies
from alcove.testing.networks import LabNetwork, apply_networks
from alcove.testing.nodes import Lab, LabNode, NamespacePod
from alcove.testing.packets import ROUTER_MAC, Tap, ethernet, ipv4, udp

Figures = dict[str, float]
VNI = 77
BATCH = 64
PAUSE_SECONDS = 0.0005
FLOWS = 120_000
RATE_MAX = 120_000
"""Flows that are opened in a second, where the machine can: somewhat more than are to be seen."""


class _Buffer(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


class _Message(ctypes.Structure):
    """struct mmsghdr."""

    _fields_ = (
        ("name", ctypes.c_void_p),
        ("name_length", ctypes.c_uint32),
        ("buffers", ctypes.POINTER(_Buffer)),
        ("buffer_count", ctypes.c_size_t),
        ("control", ctypes.c_void_p),
        ("control_length", ctypes.c_size_t),
        ("flags", ctypes.c_int),
        ("padding", ctypes.c_int),
        ("sent", ctypes.c_uint32),
    )


class FrameBatches:
    """Sends frames in turns, BATCH in one call: one by one, Python is not fast enough."""

    def __init__(self, socket: int, frames: Sequence[bytes]) -> None:
        self._socket = socket
        self._frames = [ctypes.create_string_buffer(frame, len(frame)) for frame in frames]
        buffers = (_Buffer * len(frames))(
            *(_Buffer(ctypes.addressof(frame), len(frame)) for frame in self._frames)
        )
        self._messages = (_Message * len(frames))()
        for message, buffer in zip(self._messages, buffers, strict=True):
            message.buffers, message.buffer_count = ctypes.pointer(buffer), 1
        self._next = 0
        self._send = ctypes.CDLL(None, use_errno=True).sendmmsg

    def send(self) -> None:
        count = min(BATCH, len(self._frames) - self._next)
        sent = int(self._send(self._socket, ctypes.byref(self._messages[self._next]), count, 0))
        if sent < 0:
            raise OSError(ctypes.get_errno(), "sendmmsg")
        self._next = (self._next + sent) % len(self._frames)


class Sender:
    """Opens flows from one pod to another, in a thread: a UDP packet each, from and to ever other ports."""

    def __init__(self, source: NamespacePod, target: NamespacePod) -> None:
        frames = [
            ethernet(
                source.veth.mac,
                ROUTER_MAC,
                0x0800,
                ipv4(
                    source.address,
                    target.address,
                    17,
                    udp(source.address, target.address, 1024 + n % 60_000, 1 + n // 60_000, b""),
                ),
            )
            for n in range(FLOWS)
        ]
        self._gun = Tap(source.namespace, "eth0")
        self._batches = FrameBatches(self._gun.socket.fileno(), frames)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> "Sender":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self._gun.socket.close()

    def _run(self) -> None:
        began, sent = time.monotonic(), 0
        while not self._ended.is_set():
            self._batches.send()
            sent += BATCH
            if sent > RATE_MAX * (time.monotonic() - began):
                time.sleep(PAUSE_SECONDS)


def snapshot_of(pods: list[NamespacePod]) -> NetworkSnapshot:
    tenant = TenantId("bench")
    allocations = [
        EndpointAllocation(
            pod.name, "simple", pod.name, OwnerRef(tenant, "default", pod.name), VNI, ip_address(pod.address)
        )
        for pod in pods
    ]
    local = [
        LocalPod(
            PodKey(HOME, tenant, "default", pod.name, pod.name),
            (ip_address(pod.address),),
            (None, None),
            SelectingPolicies(),
        )
        for pod in pods
    ]
    return NetworkSnapshot(tenant, "own", allocations, [], frozenset(), local)


class LabTables:
    """A node's tables as the agent's `TrafficReader` has them, without the objects that say whose networks they are."""

    def __init__(self, node: LabNode, pods: list[NamespacePod]) -> None:
        self._node = node
        self._snapshot = snapshot_of(pods)
        self.rings: dict[int, OpeningRing] = {}

    def views(self, *_: object) -> dict[int, object]:
        return {VNI: self._snapshot}

    async def open_rings(self, vnis: list[int], held: dict[int, OpeningRing]) -> dict[int, OpeningRing]:
        self.rings = self._node.plane.open_rings(vnis, held)
        return self.rings

    async def network_drops(self) -> dict[int, int]:
        return self._node.plane.network_drops()

    async def flows(self, plane: PlaneId, tenant: TenantId | None, selection: FlowSelection) -> NodeFlows:
        return self.report(selection)

    async def opened(
        self, tenant: TenantId | None, selection: FlowSelection, views: object, openings: dict[int, Openings]
    ) -> NodeFlows:
        return self.report(selection, openings.get(VNI, EMPTY))

    def report(self, selection: FlowSelection, openings: Openings | None = None) -> NodeFlows:
        traffic = self._node.plane.open_traffic(VNI)
        assert traffic is not None
        found, left_out, _ = report_network(traffic, self._snapshot, selection, openings)
        return NodeFlows(tuple(found), left_out)


async def follow(tables: LabTables, seconds: float) -> Figures:
    """A stream of flows as the agent sends it, to a client that takes everything."""
    selection = FlowSelection(since=time.time(), limit=LIMIT_DEFAULT)
    lines: list[bytes] = []

    async def write(line: bytes) -> None:
        lines.append(line)

    follower = RingFollower(cast(TrafficReader, tables), HOME, TenantId("bench"), selection)
    began, used = time.monotonic(), time.thread_time()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await flow_stream.send(write, follower, LIMIT_DEFAULT)
    elapsed, used, missed = time.monotonic() - began, time.thread_time() - used, tables.rings[VNI].missed
    parts = [msgspec.json.decode(line, type=NodeFlows) for line in lines if line.strip()]
    sent, left_out = sum(len(each.flows) for each in parts), sum(each.left_out for each in parts)
    return {
        "flows_per_s": (sent + left_out - missed) / elapsed,
        "flows_missed_per_s": missed / elapsed,
        "flows_sent_per_s": sent / elapsed,
        "flows_cpu_percent": 100 * used / elapsed,
    }


def seen(seconds: float) -> Figures:
    with Lab(1) as lab:
        node = lab.nodes[0]
        pods = [node.add_pod(f"p{number}", VNI, f"10.0.1.{11 + number}/24") for number in range(2)]
        apply_networks(lab, LabNetwork(VNI, pods=pods))
        tables = LabTables(node, pods)
        with Sender(*pods):
            figures = asyncio.run(follow(tables, seconds))
        durations = []
        for _ in range(5):
            start = time.perf_counter()
            tables.report(FlowSelection(limit=MEMORY_ENTRIES))
            durations.append((time.perf_counter() - start) * 1e3)
    return {**figures, "report_ms": statistics.median(durations)}

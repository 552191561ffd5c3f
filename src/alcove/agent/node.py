"""The node's own object: registered once, told anew when something changed, and a lease that says it lives.

Ready is told by the lease every ten seconds and in the status every five minutes; in between the status is written
only when it says something else.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from alcove.agent.hardware import Hardware
from alcove.api import meta, objects
from alcove.api.errors import ApiError, Conflict, NotFound
from alcove.api.ids import SYSTEM
from alcove.api.objects import Object
from alcove.client.client import Client, Patch
from alcove.client.errors import ClientError
from alcove.client.resources import LEASES, NODES

log = logging.getLogger(__name__)

LEASE_NAMESPACE = "kube-node-lease"
LEASE_SECONDS = 40
RENEW_SECONDS = 10.0
SILENT_SECONDS_MAX = 30.0
"""After a longer silence (the process or the machine was paused) the node may be thought lost."""
STATUS_SECONDS = 300.0
PODS_MAX = 110
KUBERNETES_VERSION = "v1.37.0"
"""Whose kubelet this agent stands for."""
HOLLOW = "AlcoveHollow"
_RESERVED_MEMORY_BYTES = 256 << 20
_RESERVED_CPU_MILLI = 100


class NodeDescription(Struct, frozen=True):
    name: str
    addresses: tuple[str, ...]
    port: int
    hardware: Hardware
    handlers: Sequence[Object]
    """As `status.runtimeHandlers` has them."""
    runtime: str
    """What runs containers here, in a word and its version."""
    is_hollow: bool = False
    hollow_because: str = ""
    pods_max: int = PODS_MAX
    labels: Mapping[str, str] = {}


class NodePressures(Struct, frozen=True):
    """What the node is short of."""

    memory: bool = False
    disk: bool = False
    processes: bool = False
    not_ready: str = ""
    """Why it can run no pods; empty: it can."""


def node_of(facts: NodeDescription) -> Object:
    labels = {
        "kubernetes.io/hostname": facts.name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": facts.hardware.architecture,
        **facts.labels,
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": facts.name, "labels": labels},
        "spec": {},
    }


def status_of(
    facts: NodeDescription, pressures: NodePressures, before: Sequence[Object], now: float
) -> Object:
    hardware = facts.hardware
    capacity = _amounts(hardware.cpu_milli, hardware.memory_bytes, hardware.disk_bytes, facts.pods_max)
    addresses = [{"type": "InternalIP", "address": each} for each in facts.addresses]
    return {
        "capacity": capacity,
        "allocatable": allocatable(facts),
        "addresses": [*addresses, {"type": "Hostname", "address": facts.name}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": facts.port}},
        "nodeInfo": _info(facts),
        "runtimeHandlers": list(facts.handlers),
        "conditions": _conditions(facts, pressures, before, now),
    }


def allocatable(facts: NodeDescription) -> dict[str, str]:
    """What pods may have: a little is kept for the node itself."""
    hardware = facts.hardware
    return _amounts(
        max(hardware.cpu_milli - _RESERVED_CPU_MILLI, 0),
        max(hardware.memory_bytes - _RESERVED_MEMORY_BYTES, 0),
        hardware.disk_bytes * 9 // 10,
        facts.pods_max,
    )


def _amounts(cpu_milli: int, memory_bytes: int, disk_bytes: int, pods: int) -> dict[str, str]:
    return {
        "cpu": f"{cpu_milli}m" if cpu_milli % 1_000 else str(cpu_milli // 1_000),
        "memory": f"{memory_bytes // 1_024}Ki",
        "ephemeral-storage": f"{disk_bytes // 1_024}Ki",
        "pods": str(pods),
    }


def _info(facts: NodeDescription) -> Object:
    hardware = facts.hardware
    return {
        "architecture": hardware.architecture,
        "bootID": hardware.boot_id,
        "containerRuntimeVersion": facts.runtime,
        "kernelVersion": hardware.kernel,
        "kubeProxyVersion": "",
        "kubeletVersion": f"{KUBERNETES_VERSION}+alcove",
        "machineID": hardware.machine_id,
        "operatingSystem": "linux",
        "osImage": hardware.os_image,
        "systemUUID": "",
    }


def _conditions(
    facts: NodeDescription, pressures: NodePressures, before: Sequence[Object], now: float
) -> list[Object]:
    ready = not pressures.not_ready
    why = "agent is ready" if ready else pressures.not_ready
    found = [
        _pressure("MemoryPressure", pressures.memory, "Memory", "memory available"),
        _pressure("DiskPressure", pressures.disk, "Disk", "disk space"),
        _pressure("PIDPressure", pressures.processes, "PID", "process ids available"),
        _condition("Ready", ready, "KubeletReady" if ready else "KubeletNotReady", why),
    ]
    if facts.is_hollow:
        message = "pods of this node are hollow: they have states and addresses, but nothing runs"
        if facts.hollow_because:
            message += f" ({facts.hollow_because})"
        found.append(_condition(HOLLOW, True, "HollowRuntime", message))
    known = {each["type"]: each for each in before}
    return [_timed(each, known.get(each["type"]), now) for each in found]


def _pressure(kind: str, holds: bool, what: str, of: str) -> Object:
    if holds:
        return _condition(kind, True, f"KubeletHasInsufficient{what}", f"agent has insufficient {of}")
    reason = f"KubeletHasSufficient{what}" if what != "Disk" else "KubeletHasNoDiskPressure"
    return _condition(kind, False, reason, f"agent has sufficient {of}")


def _condition(kind: str, holds: bool, reason: str, message: str) -> Object:
    return {"type": kind, "status": "True" if holds else "False", "reason": reason, "message": message}


def _timed(condition: Object, before: Object | None, now: float) -> Object:
    time = meta.format_time(now)
    same = before is not None and before.get("status") == condition["status"]
    changed = before.get("lastTransitionTime") if same and before else None
    return {**condition, "lastHeartbeatTime": time, "lastTransitionTime": changed or time}


class NodeStatusManager:
    """`run` until cancelled."""

    def __init__(
        self,
        facts: NodeDescription,
        client: Client,
        wall: Callable[[], float],
        pressures: Callable[[], NodePressures] = NodePressures,
        images: Callable[[], Sequence[Mapping[str, object]]] = tuple,
    ) -> None:
        self.facts = facts
        """What is told; whoever learns more may change it."""
        self._client = client
        self._wall = wall
        self._pressures = pressures
        self._images = images
        self._node: Object | None = None
        self._lease: Object | None = None
        self._told: Object = {}
        self._told_at = 0.0
        self._heard_at = (0.0, 0.0)
        """When the lease was renewed last, by both clocks."""
        self.registered = asyncio.Event()

    async def run(self) -> None:
        clock = asyncio.get_running_loop().time
        while True:
            began = clock()
            try:
                await self._keep(began)
                self.registered.set()
            except (ApiError, ClientError) as error:
                log.warning("node not told of", extra={"node": self.facts.name, "error": str(error)})
                self._node = self._lease = None
            waits = RENEW_SECONDS if self._node is not None else 1.0
            await asyncio.sleep(max(0.0, began + waits - clock()))

    async def _keep(self, now: float) -> None:
        moment = (now, self._wall())
        if max(one - other for one, other in zip(moment, self._heard_at, strict=True)) > SILENT_SECONDS_MAX:
            self._node = None  # It was thought lost, and others wrote so: everything is told again.
        if self._node is None:
            self._node = await self._registered()
            self._told = {}
        await self._tell_status(now)
        await self._renew(self._node)
        self._heard_at = moment

    async def _registered(self) -> Object:
        """The node's object, made if there is none. What others wrote on it stays; its own labels are kept true."""
        wanted = node_of(self.facts)
        try:
            node = await self._client.get(SYSTEM, NODES, self.facts.name)
        except NotFound:
            log.info("registering", extra={"node": self.facts.name})
            wanted["status"] = status_of(self.facts, self._pressures(), (), self._wall())
            return await self._client.create(SYSTEM, NODES, wanted)
        labels = wanted["metadata"]["labels"]
        if any(objects.labels(node).get(name) != value for name, value in labels.items()):
            patch = {"metadata": {"labels": labels}}
            node = await self._client.patch(SYSTEM, NODES, self.facts.name, patch)
        return node

    async def _tell_status(self, now: float) -> None:
        before = self._told.get("conditions") or objects.get(
            self._node or {}, "status", "conditions", default=[]
        )
        status = status_of(self.facts, self._pressures(), before, self._wall())
        if images := self._images():
            status["images"] = list(images)
        if _without_times(status) == _without_times(self._told) and now - self._told_at < STATUS_SECONDS:
            return
        await self._client.patch(
            SYSTEM, NODES, self.facts.name, {"status": status}, kind=Patch.STRATEGIC, subresource="status"
        )
        self._told, self._told_at = status, now

    async def _renew(self, node: Object) -> None:
        name, now = self.facts.name, meta.format_micro_time(self._wall())
        if self._lease is None:
            self._lease = await self._found_lease(node, now)
        self._lease["spec"]["renewTime"] = now
        try:
            self._lease = await self._client.update(SYSTEM, LEASES, self._lease)
        except (Conflict, NotFound):
            # Somebody else wrote it, or it is gone: the next round looks again.
            self._lease = None
            log.info("lease changed", extra={"node": name})

    async def _found_lease(self, node: Object, now: str) -> Object:
        name = self.facts.name
        try:
            return await self._client.get(SYSTEM, LEASES, name, namespace=LEASE_NAMESPACE)
        except NotFound:
            owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": node["metadata"]["uid"]}
            spec = {"holderIdentity": name, "leaseDurationSeconds": LEASE_SECONDS, "renewTime": now}
            metadata = {"name": name, "namespace": LEASE_NAMESPACE, "ownerReferences": [owner]}
            return await self._client.create(
                SYSTEM, LEASES, {"metadata": metadata, "spec": spec}, namespace=LEASE_NAMESPACE
            )


def _without_times(status: Object) -> Object:
    """To compare. Every node does this every ten seconds: nothing is copied that stays."""
    conditions = [
        {name: value for name, value in each.items() if name != "lastHeartbeatTime"}
        for each in status.get("conditions") or ()
    ]
    return {**status, "conditions": conditions}

"""The Node object: registers it, keeps its status up to date, and renews its lease.

The lease is renewed every RENEW_SECONDS. The status is written when it changes, and every STATUS_SECONDS.
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
from alcove.client.errors import ClientError, PlaneStopped
from alcove.client.resources import LEASES, NODES

log = logging.getLogger(__name__)

LEASE_NAMESPACE = "kube-node-lease"
LEASE_SECONDS = 40
RENEW_SECONDS = 10.0
SILENT_SECONDS_MAX = 30.0
"""If the lease was not renewed for longer (the process or the machine was paused), the node lifecycle
controller may have changed the node's status."""
STATUS_SECONDS = 300.0
PODS_MAX = 110
KUBERNETES_VERSION = "v1.37.0"
"""The version of the kubelet that this agent corresponds to."""
HOLLOW = "AlcoveHollow"
_RESERVED_MEMORY_BYTES = 256 << 20
_RESERVED_CPU_MILLI = 100


class NodeDescription(Struct, frozen=True):
    name: str
    addresses: tuple[str, ...]
    port: int
    hardware: Hardware
    handlers: Sequence[Object]
    """The value of `status.runtimeHandlers`."""
    runtime: str
    """The value of `containerRuntimeVersion`."""
    is_hollow: bool = False
    hollow_because: str = ""
    pods_max: int = PODS_MAX
    labels: Mapping[str, str] = {}


class NodePressures(Struct, frozen=True):
    """The resources under pressure."""

    memory: bool = False
    disk: bool = False
    processes: bool = False
    not_ready: str = ""
    """Why the node is not ready; empty if it is."""


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
    """The capacity without what is reserved for the node itself."""
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
    message = "agent is ready" if ready else pressures.not_ready
    conditions = [
        _pressure("MemoryPressure", pressures.memory, "Memory", "memory available"),
        _pressure("DiskPressure", pressures.disk, "Disk", "disk space"),
        _pressure("PIDPressure", pressures.processes, "PID", "process ids available"),
        _condition("Ready", ready, "KubeletReady" if ready else "KubeletNotReady", message),
    ]
    if facts.is_hollow:
        message = "pods on this node are hollow: they have states and addresses, but no processes"
        if facts.hollow_because:
            message += f" ({facts.hollow_because})"
        conditions.append(_condition(HOLLOW, True, "HollowRuntime", message))
    previous = {each["type"]: each for each in before}
    return [_timed(each, previous.get(each["type"]), now) for each in conditions]


def _pressure(kind: str, holds: bool, resource: str, description: str) -> Object:
    if holds:
        reason = f"KubeletHasInsufficient{resource}"
        return _condition(kind, True, reason, f"agent has insufficient {description}")
    reason = f"KubeletHasSufficient{resource}" if resource != "Disk" else "KubeletHasNoDiskPressure"
    return _condition(kind, False, reason, f"agent has sufficient {description}")


def _condition(kind: str, holds: bool, reason: str, message: str) -> Object:
    return {"type": kind, "status": "True" if holds else "False", "reason": reason, "message": message}


def _timed(condition: Object, before: Object | None, now: float) -> Object:
    time = meta.format_time(now)
    same = before is not None and before.get("status") == condition["status"]
    changed = before.get("lastTransitionTime") if same and before else None
    return {**condition, "lastHeartbeatTime": time, "lastTransitionTime": changed or time}


class NodeStatusManager:
    """`run` returns only when cancelled."""

    def __init__(
        self,
        facts: NodeDescription,
        client: Client,
        wall: Callable[[], float],
        pressures: Callable[[], NodePressures] = NodePressures,
        images: Callable[[], Sequence[Mapping[str, object]]] = tuple,
        *,
        has_lease: bool = True,
    ) -> None:
        """`has_lease`: whether the node's lease is renewed, which only ring0's controllers look at."""
        self.facts = facts
        """What the status is made from; may be replaced at any time."""
        self._client = client
        self._wall = wall
        self._pressures = pressures
        self._images = images
        self._has_lease = has_lease
        self._node: Object | None = None
        self._lease: Object | None = None
        self._reported: Object = {}
        self._reported_at = 0.0
        self._renewed_at = (0.0, 0.0)
        """When the lease was last renewed, by the monotonic and the wall clock."""
        self.registered = asyncio.Event()

    async def run(self) -> None:
        clock = asyncio.get_running_loop().time
        while True:
            began = clock()
            try:
                await self._sync(began)
                self.registered.set()
            except PlaneStopped:
                pass  # Of a tenant that is asleep: its nodes are of no use to it.
            except (ApiError, ClientError) as error:
                log.warning(
                    "failed to update node status; retrying",
                    extra={"node": self.facts.name, "error": str(error)},
                )
                self._node = self._lease = None
            waits = RENEW_SECONDS if self._node is not None else 1.0
            await asyncio.sleep(max(0.0, began + waits - clock()))

    async def _sync(self, now: float) -> None:
        times = (now, self._wall())
        if max(time - last for time, last in zip(times, self._renewed_at, strict=True)) > SILENT_SECONDS_MAX:
            self._node = None  # The node may have been marked as lost: read it again and write the status.
        if self._node is None:
            self._node = await self._register()
            self._reported = {}
        await self._update_status(now)
        if self._has_lease:
            await self._renew(self._node)
        self._renewed_at = times

    async def _register(self) -> Object:
        """The Node object, created if missing. An existing one gets the agent's labels; everything else in it
        stays."""
        desired = node_of(self.facts)
        try:
            node = await self._client.get(SYSTEM, NODES, self.facts.name)
        except NotFound:
            log.info("registering node", extra={"node": self.facts.name})
            desired["status"] = status_of(self.facts, self._pressures(), (), self._wall())
            return await self._client.create(SYSTEM, NODES, desired)
        labels = desired["metadata"]["labels"]
        if any(objects.labels(node).get(name) != value for name, value in labels.items()):
            patch = {"metadata": {"labels": labels}}
            node = await self._client.patch(SYSTEM, NODES, self.facts.name, patch)
        return node

    async def _update_status(self, now: float) -> None:
        before = self._reported.get("conditions") or objects.get(
            self._node or {}, "status", "conditions", default=[]
        )
        status = status_of(self.facts, self._pressures(), before, self._wall())
        if images := self._images():
            status["images"] = list(images)
        if (
            _without_times(status) == _without_times(self._reported)
            and now - self._reported_at < STATUS_SECONDS
        ):
            return
        await self._client.patch(
            SYSTEM, NODES, self.facts.name, {"status": status}, kind=Patch.STRATEGIC, subresource="status"
        )
        self._reported, self._reported_at = status, now

    async def _renew(self, node: Object) -> None:
        name, now = self.facts.name, meta.format_micro_time(self._wall())
        if self._lease is None:
            self._lease = await self._get_or_create_lease(node, now)
        self._lease["spec"]["renewTime"] = now
        try:
            self._lease = await self._client.update(SYSTEM, LEASES, self._lease)
        except (Conflict, NotFound):
            # Another writer changed or deleted it: the next round reads it again.
            self._lease = None
            log.info("lease conflict; reading the lease again", extra={"node": name})

    async def _get_or_create_lease(self, node: Object, now: str) -> Object:
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
    """The status without heartbeat times, for comparison. A shallow copy, since every node does this every 10
    s."""
    conditions = [
        {name: value for name, value in each.items() if name != "lastHeartbeatTime"}
        for each in status.get("conditions") or ()
    ]
    return {**status, "conditions": conditions}

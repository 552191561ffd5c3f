"""Reads what tenants use of this node and charges it to them.

CPU time and bytes come from counters of the kernel: of each tenant's cgroup, which has counted also pods that are gone,
and of each network. They miss nothing, however short. Memory is a level: it is sampled, at times that cannot be foreseen.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable, Mapping

from msgspec import Struct, structs

from alcove.agent.cgroups import Cgroups
from alcove.agent.ingress.traffic import RelayedBytes
from alcove.agent.metering.charges import MeteredPod, NodeCharges
from alcove.agent.podkey import PodKey
from alcove.api.kinds.core.pods.totals import pod_requests
from alcove.api.objects import Object
from alcove.api.usage import UsageAmounts
from alcove.dataplane.meters import TrafficBytes

CPU, NETWORK = "cpu/", "network/"
TRAFFIC_FIELDS = (
    "network_out_bytes",
    "network_in_bytes",
    "world_out_bytes",
    "world_in_bytes",
    "node_port_out_bytes",
    "node_port_in_bytes",
    "load_balancer_out_bytes",
    "load_balancer_in_bytes",
)
"""The amounts that `TrafficBytes` are charged as, in its order."""


class NetworkReading(Struct, frozen=True):
    """The counters of one network on this node. `id` is that of these counters, never used again; `tenant` is empty while
    it is not known."""

    tenant: str
    id: str
    bytes: TrafficBytes


class MeterSources(Struct, frozen=True, kw_only=True):
    """Where the meter reads."""

    cgroups: Cgroups
    tenant_group: Callable[[PodKey], str]
    networks: Callable[[], Awaitable[Iterable[NetworkReading]]]
    volumes: Callable[[], Awaitable[Mapping[str, int]]]
    """Bytes of each tenant's local volumes."""
    ingress: Callable[[], Mapping[str, RelayedBytes]]
    """What ingresses have relayed for each tenant since the last call."""


class TenantMeter:
    def __init__(
        self, charges: NodeCharges, sources: MeterSources, clock: Callable[[], float] = time.time
    ) -> None:
        self.charges = charges
        self._sources = sources
        self._clock = clock
        self._read_at = int(clock())
        self._sampled: dict[str, int] = {}
        """When the memory of each tenant's cgroup was last sampled."""
        for group in self._groups():
            self._charge_cpu(group, self._read_at)

    def pod_started(self, key: PodKey, spec: Object) -> None:
        """The pod has a cgroup, or its requests have changed. Idempotent."""
        now, requests = int(self._clock()), pod_requests(spec)
        cpu, memory = requests.get("cpu"), requests.get("memory")
        self.charges.pod_started(
            key.directory_name,
            MeteredPod(
                key.tenant,
                self._sources.tenant_group(key),
                cpu.milli if cpu else 0,
                memory.value if memory else 0,
                now,
            ),
            now,
        )

    def pod_ended(self, key: PodKey) -> None:
        """Must be called when the pod's processes are gone, and before its cgroup is: that of its tenant goes with the
        last pod's. Idempotent."""
        pod = self.charges.state.pods.get(key.directory_name)
        if pod is not None:
            now = int(self._clock())
            self._charge_cpu(pod.group, now)
            self.charges.pod_ended(key.directory_name, now)

    def keep_pods(self, keys: Iterable[PodKey]) -> None:
        """Ends pods that are not among these: an agent that was killed has removed them."""
        kept = {key.directory_name for key in keys}
        for name in [name for name in self.charges.state.pods if name not in kept]:
            del self.charges.state.pods[name]

    def sample_memory(self) -> None:
        """Charges the memory that tenants use now for the time since the last sample."""
        now = int(self._clock())
        groups = self._groups()
        for group, tenant in groups.items():
            since = self._sampled.get(group, now)
            used = self._sources.cgroups.usage(group).working_set_bytes
            amounts = UsageAmounts(memory_used_byte_seconds=used * max(0, now - since))
            self.charges.hours.charge(tenant, amounts, since, now)
        self._sampled = dict.fromkeys(groups, now)

    async def read(self) -> None:
        """Charges everything up to now."""
        networks, volumes = await self._sources.networks(), await self._sources.volumes()
        now, since = int(self._clock()), self._read_at
        self._read_at = now
        for group in self._groups():
            self._charge_cpu(group, now)
        existing = {self._cpu_key(group) for group in self._groups()}
        self.charges.forget_counters(CPU, existing)
        self.charges.charge_pods(now)
        for tenant, size in volumes.items():
            self.charges.hours.charge(
                tenant, UsageAmounts(volume_byte_seconds=size * max(0, now - since)), since, now
            )
        self._charge_networks(networks, since, now)
        for tenant, relayed in self._sources.ingress().items():
            amounts = UsageAmounts(ingress_in_bytes=relayed.to_pods, ingress_out_bytes=relayed.from_pods)
            self.charges.hours.charge(tenant, amounts, since, now)
        self.charges.is_new = False

    def _charge_networks(self, readings: Iterable[NetworkReading], since: int, now: int) -> None:
        existing = set()
        for reading in readings:
            key = NETWORK + reading.id
            existing.add(key)
            known = self.charges.state.counters.get(key)
            tenant = reading.tenant or (known.tenant if known is not None else "")
            if tenant or self.charges.is_new:
                values = structs.astuple(reading.bytes)
                self.charges.charge_counter(key, tenant, values, TRAFFIC_FIELDS, since, now)
        self.charges.forget_counters(NETWORK, existing)

    def _charge_cpu(self, group: str, now: int) -> None:
        tenant = self._groups().get(group)
        key = self._cpu_key(group)
        if tenant is not None and key:
            used = self._sources.cgroups.usage(group).cpu_nanoseconds
            self.charges.charge_counter(key, tenant, (used,), ("cpu_used_nanoseconds",), self._read_at, now)

    def _cpu_key(self, group: str) -> str:
        """The key of the cgroup's counter; empty if it does not exist. A cgroup that is made again has another inode."""
        inode = self._sources.cgroups.inode(group)
        return f"{CPU}{group}/{inode}" if inode else ""

    def _groups(self) -> dict[str, str]:
        """The tenant of each tenants' cgroup."""
        return {pod.group: pod.tenant for pod in self.charges.state.pods.values()}

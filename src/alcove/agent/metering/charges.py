"""What the node charges tenants for: what each has used in each hour, and how far every counter has been charged.

Both are saved in one file, by one rename. So a kill loses what was not saved yet, which is at most one interval's, and
never charges anything twice.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct, field

from alcove.api.usage import TenantAmounts, UsageAmounts
from alcove.api.usage_hours import UsageHours

_NANOSECONDS_PER_MILLI = 1_000_000


class ChargedCounter(Struct):
    """How far a counter of the kernel has been charged."""

    tenant: str
    values: tuple[int, ...]


class MeteredPod(Struct):
    tenant: str
    group: str
    """The cgroup of its tenant."""
    cpu_milli: int
    memory_bytes: int
    charged_until: int
    """Epoch seconds."""


class ChargesState(Struct):
    boot: str = ""
    """The kernel's id of this boot: counters do not outlive it."""
    counters: dict[str, ChargedCounter] = field(default_factory=dict)
    pods: dict[str, MeteredPod] = field(default_factory=dict)
    """By uid."""
    hours: dict[int, TenantAmounts] = field(default_factory=dict)


class NodeCharges:
    def __init__(self, state: ChargesState, boot: str) -> None:
        self.is_new = not state.boot
        """Nothing is known of what the counters say at first: it is not charged."""
        if state.boot != boot:
            state = ChargesState(boot, {}, {}, state.hours)
        self.state = state
        self.hours = UsageHours(state.hours)

    @classmethod
    def open(cls, path: Path, boot: str) -> NodeCharges:
        """An unreadable file counts as a missing one: the next save replaces it."""
        try:
            state = msgspec.json.decode(path.read_bytes(), type=ChargesState)
        except (OSError, msgspec.MsgspecError):
            state = ChargesState()
        return cls(state, boot)

    def encoded(self) -> bytes:
        return msgspec.json.encode(self.state)

    # Charging

    def charge_counter(
        self, key: str, tenant: str, values: Sequence[int], fields: Sequence[str], since: int, now: int
    ) -> None:
        """Charges what was added to a counter since the last call, or since it began. `key` must be that of another
        counter when it begins anew."""
        known = self.state.counters.get(key)
        start = known.values if known is not None else (0,) * len(values)
        if known is None and self.is_new:
            start = tuple(values)
        used = {name: max(0, now_ - before) for name, now_, before in zip(fields, values, start, strict=True)}
        self.state.counters[key] = ChargedCounter(tenant, tuple(values))
        self.hours.charge(tenant, UsageAmounts(**used), since, now)

    def forget_counters(self, prefix: str, existing: Collection[str]) -> None:
        """Forgets counters with that prefix that no longer exist."""
        for key in [key for key in self.state.counters if key.startswith(prefix) and key not in existing]:
            del self.state.counters[key]

    def pod_started(self, uid: str, pod: MeteredPod, now: int) -> None:
        """A pod has got its cgroup, or other requests. Idempotent."""
        known = self.state.pods.get(uid)
        if known is None:
            self.hours.charge(pod.tenant, UsageAmounts(pods_started=1), now, now)
        else:
            self._charge_pod(known, now)
            pod.charged_until = known.charged_until
        self.state.pods[uid] = pod

    def pod_ended(self, uid: str, now: int) -> None:
        """Idempotent. A pod counts in whole seconds, the one that has begun included."""
        pod = self.state.pods.pop(uid, None)
        if pod is not None:
            self._charge_pod(pod, now + 1)

    def charge_pods(self, now: int) -> None:
        for pod in self.state.pods.values():
            self._charge_pod(pod, now)

    def _charge_pod(self, pod: MeteredPod, now: int) -> None:
        seconds = max(0, now - pod.charged_until)
        amounts = UsageAmounts(
            cpu_requested_nanoseconds=pod.cpu_milli * _NANOSECONDS_PER_MILLI * seconds,
            memory_requested_byte_seconds=pod.memory_bytes * seconds,
            pod_seconds=seconds,
        )
        self.hours.charge(pod.tenant, amounts, pod.charged_until, now)
        pod.charged_until += seconds


def save(path: Path, content: bytes) -> None:
    """Replaces the file in one step, readable by its owner alone: it names tenants. Blocks."""
    draft = path.with_suffix(".new")
    with open(draft, "wb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    draft.rename(path)


def boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()

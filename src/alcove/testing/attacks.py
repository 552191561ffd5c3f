"""A running cluster with an attacker and a quiet tenant, for tests that attack.

    with attacked_cluster(directory) as arena, arena.unharmed():
        arena.attacker.patch(…)

At the end of `unharmed` no file of the machine has changed, nothing was restarted, and the quiet tenant is served.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from msgspec import Struct

from alcove.testing.abuse.attacker import Target
from alcove.testing.abuse.process import Abuse
from alcove.testing.cluster import LocalCluster, RealCluster, create, pod, ready
from alcove.testing.hosttree import HostTree
from alcove.testing.quiet import (
    PLAIN,
    QuietFigures,
    QuietTenant,
    StallMeter,
    add_plain_class,
    percentile,
    pod_namespace,
)
from alcove.testing.server import Caller, wait_until

ATTACKER, QUIET = "mallory", "quiet"
START_SECONDS_MAX = 60.0
_NUMBERS = count(1)
TIMES_SLOWER_MAX = 2.0
SPARE_MS = 50.0
"""Added to the median that a quiet tenant may wait: tests share two cores with others, so `bench.abuse` measures what
is exact."""
STALL_MS_MAX = 100.0
"""Of computing between a question and its answer. Twice what is wanted: on a busy machine the one who asks notices the
answer late, and the server computes for others meanwhile."""


class AttackedCluster(Struct, frozen=True):
    cluster: RealCluster
    quiet: QuietTenant
    attacker: Caller
    target: Target
    """What the attacker's processes need to know (`Abuse`)."""

    @property
    def sandboxed(self) -> dict[str, str]:
        """Fields of a pod's spec for the strongest runtime that works here."""
        return {"runtimeClassName": self.target.runtime_class} if self.target.runtime_class else {}

    @contextmanager
    def unharmed(self) -> Iterator[None]:
        """Fails if a file of the machine was changed in the block, or something was restarted."""
        files, restarts = HostTree.look(self.cluster), self._restarts()
        try:
            yield
        finally:
            for name, process in self.cluster.processes.items():
                assert process.is_running, f"{name} ended with {process.exit_code}: {process.log[-3000:]}"
        changed = files.changes(HostTree.look(self.cluster))
        assert not changed, f"files of the machine were changed: {changed}"
        assert self._restarts() == restarts, "something was restarted"

    def _restarts(self) -> int:
        return self.cluster.restarts + self.quiet.restarts

    def measure_during(self, kinds: list[str], seconds: float) -> AttackFigures:
        """What the quiet tenant measures before these kinds of abuse and while they go on. The abuser is a tenant of
        its own, which is deleted with all that it made."""
        name = f"{ATTACKER}-{next(_NUMBERS)}"
        target = make_attacker(self.cluster, self.target.runtime_class, name)
        before = self.quiet.measure(seconds / 2, starts=False)
        with StallMeter(self.cluster.server) as stall, Abuse(target, kinds) as abuse:
            during = self.quiet.measure(seconds, starts=False)
        system, path = self.cluster.server.system, f"/api/v1/tenants/{name}"
        system.delete(path)
        wait_until(lambda: system.get(path).status == 404, START_SECONDS_MAX)
        return AttackFigures(before, during, stall.busy_ms, abuse.outcomes)


class AttackFigures(Struct, frozen=True):
    before: QuietFigures
    during: QuietFigures
    stall_busy_ms: float
    """The longest time that the API server computed without answering."""
    outcomes: dict[str, int]
    """What the attacker was answered."""

    def check(self) -> None:
        """Fails if the quiet tenant was not served, had to wait much longer than before, or if the API server computed
        for long without answering anybody."""
        assert self.outcomes, "there was no attack"
        assert not self.during.failures, self.during.failures[:5]
        assert self.stall_busy_ms <= STALL_MS_MAX, f"nobody was answered for {self.stall_busy_ms:.0f} ms"
        for name, before, during in (
            ("GET", self.before.get_ms, self.during.get_ms),
            ("DNS", self.before.dns_ms, self.during.dns_ms),
        ):
            usual, now = percentile(before, 0.5), percentile(during, 0.5)
            assert now <= TIMES_SLOWER_MAX * usual + SPARE_MS, f"{name}: {usual:.1f} ms, now {now:.1f} ms"


@contextmanager
def attacked_cluster(directory: Path) -> Iterator[AttackedCluster]:
    with RealCluster(directory) as cluster:
        runtime_class = "" if cluster.runs_gvisor else PLAIN
        spec = {"runtimeClassName": runtime_class} if runtime_class else {}
        target = make_attacker(cluster, runtime_class)
        attacker = cluster.server.as_tenant(ATTACKER)
        yield AttackedCluster(cluster, QuietTenant(cluster, QUIET, **spec), attacker, target)


def make_attacker(cluster: LocalCluster, runtime_class: str, name: str = ATTACKER) -> Target:
    """A tenant with a pod. On a real node the attacker's processes can open sockets in its network namespace."""
    caller = cluster.make_tenant(name)
    uid = create(caller, pod("base", **add_plain_class(cluster, name)))
    ready(caller, "base", START_SECONDS_MAX)
    dns = caller.get("/api/v1/namespaces/kube-system/services/kube-dns-default").json["spec"]["clusterIP"]
    namespace = pod_namespace(cluster, uid) if isinstance(cluster, RealCluster) else ""
    return Target(caller.kubeconfig, "n1", namespace, dns, runtime_class)

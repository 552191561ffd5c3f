"""Controllers in shards of tenants: processes are killed, paused and started while tenants come and go.

In the end every tenant has what it needs exactly once, whichever process made it, and deleted tenants left nothing.
"""

import random
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from alcove.api import objects
from alcove.api.ids import TenantId
from alcove.api.kinds.mizar import OWNER_LABEL
from alcove.api.objects import Object
from alcove.api.tenant_shards import shard_of
from alcove.testing.controlplane import LocalControllers
from alcove.testing.server import Caller, LocalServer, changes_since, wait_until

LEASE = ("--lease-seconds", "4")
BURST = 24
MIZAR = "/apis/mizar.com/v1"
LEASES = "/apis/coordination.k8s.io/v1/tenants/system/namespaces/kube-system/leases"
_TEMPLATE: Object = {
    "metadata": {"labels": {"app": "a"}},
    "spec": {"containers": [{"name": "c", "image": "i"}], "automountServiceAccountToken": False},
}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[LocalServer]:
    with LocalServer(tmp_path / "server") as running:
        yield running


class Processes:
    """Processes of the controllers that share the shards."""

    def __init__(self, server: LocalServer, directory: Path, shards: int) -> None:
        self._server = server
        self._shards = shards
        options = ("--shards", str(shards), *LEASE)
        self.all = [LocalControllers(server, directory / str(number), *options) for number in range(shards)]

    def __enter__(self) -> "Processes":
        for each in self.all:
            each.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        for each in self.all:
            each.stop()

    def holders(self) -> list[str]:
        """The process that holds each shard, in order; empty for a shard that nobody holds."""
        return shard_holders(self._server.system, self._shards)

    @property
    def are_spread(self) -> bool:
        holders = self.holders()
        return all(holders) and len(set(holders)) == sum(each.is_running for each in self.all)


def holder_of(ring0: Caller, index: int, shards: int) -> str:
    """The identity of the term in which a shard is held; empty if it is not."""
    answer = ring0.get(f"{LEASES}/alcove-controllers-{index}-of-{shards}")
    return str(answer.json["spec"].get("holderIdentity", "")) if answer.status == 200 else ""


def shard_holders(ring0: Caller, shards: int) -> list[str]:
    return [holder_of(ring0, index, shards).rpartition("_")[0] for index in range(shards)]


def late_write(ring0: Caller, index: int, shards: int, holder: str) -> int:
    """The status of a write under the fence of a term."""
    fence = f"alcove-controllers-{index}-of-{shards}/{holder}"
    path = "/api/v1/tenants/system/namespaces/default/configmaps"
    return ring0.post(path, {"metadata": {"generateName": "late-"}}, alcove_fence=fence).status


def items(ring0: Caller, path: str) -> list[Object]:
    found: list[Object] = ring0.get(path).json["items"]
    return found


class Burst:
    """Tenants that are made and deleted, and what is known of them."""

    def __init__(self, ring0: Caller) -> None:
        self._ring0 = ring0
        self.there: list[str] = []
        self.deleted: list[str] = []

    def make(self, name: str) -> None:
        assert self._ring0.post("/api/v1/tenants", {"metadata": {"name": name}}).status == 201
        self.there.append(name)

    def use(self, name: str) -> bool:
        """Gives the tenant a VPC, a pod and a service in it, if its namespace is there; returns whether it has them."""
        default = f"/api/v1/tenants/{name}/namespaces/default"
        network = {"metadata": {"name": "own"}, "spec": {"type": "vpc"}}
        pod = {"metadata": {"name": "p"}, "spec": {**_TEMPLATE["spec"], "network": "own"}}
        service = {
            "metadata": {"name": "s"},
            "spec": {"type": "NodePort", "network": "own", "selector": {"app": "a"}, "ports": [{"port": 80}]},
        }
        made = [
            self._ring0.post(f"/apis/arktos.futurewei.com/v1/tenants/{name}/networks", network),
            self._ring0.post(f"{default}/pods", pod),
            self._ring0.post(f"{default}/services", service),
        ]
        return all(each.status in (201, 409) for each in made)

    def delete(self, name: str) -> None:
        assert self._ring0.delete(f"/api/v1/tenants/{name}").status == 200
        self.there.remove(name)
        self.deleted.append(name)

    # What there is

    def differences(self) -> list[str]:
        wrong = []
        names = {objects.name(each) for each in items(self._ring0, "/api/v1/tenants")}
        if names != {"system", *self.there}:
            wrong.append(f"tenants {sorted(names ^ {'system', *self.there})}")
        for tenant in self.there:
            wrong += self._of(tenant)
        return wrong + self._left()

    def _of(self, tenant: str) -> list[str]:
        wrong = []
        for namespace in ("default", "kube-public", "kube-system"):
            for resource, name in (("serviceaccounts", "default"), ("configmaps", "kube-root-ca.crt")):
                path = f"/api/v1/tenants/{tenant}/namespaces/{namespace}/{resource}/{name}"
                if self._ring0.get(path).status != 200:
                    wrong.append(f"no {path}")
        networks = items(self._ring0, f"/apis/arktos.futurewei.com/v1/tenants/{tenant}/networks")
        for network in networks:
            if objects.get(network, "status", "phase") != "Ready":
                wrong.append(f"{tenant}/{objects.name(network)} is not ready: {network.get('status')}")
        return wrong

    def _left(self) -> list[str]:
        wrong = []
        for resource in ("namespaces", "configmaps", "serviceaccounts", "pods", "services"):
            tenants = {
                each["metadata"]["tenant"] for each in items(self._ring0, f"/api/v1/tenants/all/{resource}")
            }
            wrong += [f"{resource} of {tenant}" for tenant in tenants & set(self.deleted)]
        for resource in ("vpcs", "subnets", "endpoints", "dividers", "bouncers"):
            for each in items(self._ring0, f"{MIZAR}/{resource}"):
                mark = objects.annotations(each).get("arktos.futurewei.com/network", "")
                owner = (mark or str(objects.get(each, "spec", "pod", default=""))).partition("/")[0]
                if owner in self.deleted:
                    wrong.append(f"{resource} {objects.name(each)} of {owner}")
        return wrong


def duplicates(ring0: Caller, tenants: list[str], revision: str) -> list[str]:
    """What was made twice: VNIs and addresses that there are, and objects with a name that were ever made."""
    wrong = []
    first = [each for each in items(ring0, f"{MIZAR}/dividers") if objects.name(each).endswith("-0")]
    vnis = Counter(objects.labels(each)[OWNER_LABEL] for each in first if OWNER_LABEL in objects.labels(each))
    wrong += [f"{count} VNIs of {owner}" for owner, count in vnis.items() if count > 1]
    addresses = Counter(
        (objects.labels(each)[OWNER_LABEL], objects.get(each, "spec", "type"))
        for each in items(ring0, f"{MIZAR}/endpoints")
        if OWNER_LABEL in objects.labels(each)
    )
    wrong += [f"{count} addresses of {owner}" for owner, count in addresses.items() if count > 1]
    for tenant in tenants:
        made: Counter[tuple[str, str]] = Counter()
        for event in changes_since(ring0, f"/api/v1/tenants/{tenant}/serviceaccounts", revision):
            metadata = event["object"]["metadata"]
            made[metadata["namespace"], metadata["name"]] += event["type"] == "ADDED"
        wrong += [f"{tenant}: {each} was made {count} times" for each, count in made.items() if count != 1]
    return wrong


@pytest.mark.slow
@pytest.mark.parametrize("shards", [2, 4])
@pytest.mark.timeout(900)
def test_a_burst_of_tenants_while_processes_are_killed(
    server: LocalServer, tmp_path: Path, shards: int
) -> None:
    chance = random.Random(shards)
    burst = Burst(server.system)
    revision = server.system.get("/api/v1/tenants").json["metadata"]["resourceVersion"]
    with Processes(server, tmp_path, shards) as processes:
        wait_until(lambda: processes.are_spread)
        for number in range(BURST):
            burst.make(f"t{number}")
            if number % 3 == 2:
                burst.delete(chance.choice(burst.there))
            if number % 6 == 5:
                victim = chance.choice(processes.all)
                victim.kill()
                wait_until(lambda: all(burst.use(each) for each in burst.there[-2:]))
                victim.start()
        try:
            wait_until(lambda: not burst.differences(), seconds_max=240)
        except AssertionError:
            pytest.fail("\n".join([*burst.differences(), *(each.log[-2000:] for each in processes.all)]))
        assert not duplicates(server.system, burst.there, revision)
        wait_until(lambda: processes.are_spread)
        for tenant in list(burst.there):
            burst.delete(tenant)
        wait_until(lambda: not burst.differences(), seconds_max=240)


def tenants_in_shards(shards: int) -> list[str]:
    """A name for each shard, in order."""
    names = (f"t{number}" for number in range(1000))
    found: dict[int, str] = {}
    for name in names:
        found.setdefault(shard_of(TenantId(name), shards), name)
    return [found[index] for index in range(shards)]


def make_replicas(ring0: Caller, tenant: str, count: int) -> None:
    spec = {"replicas": count, "selector": {"matchLabels": {"app": "a"}}, "template": _TEMPLATE}
    path = f"/apis/apps/v1/tenants/{tenant}/namespaces/default/replicasets"
    assert ring0.post(path, {"metadata": {"name": "rs"}, "spec": spec}).status == 201


def pods(ring0: Caller, tenant: str) -> list[Any]:
    return items(ring0, f"/api/v1/tenants/{tenant}/pods")


def made_since(ring0: Caller, tenant: str, revision: str) -> int:
    """The number of pods that were ever created, deleted ones included."""
    events = changes_since(ring0, f"/api/v1/tenants/{tenant}/pods", revision)
    return sum(event["type"] == "ADDED" for event in events)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_shard_that_is_handed_over_in_the_middle_makes_nothing_twice(
    server: LocalServer, tmp_path: Path
) -> None:
    """The first process has both shards; the second asks for one of them while both are at work. Then the first is paused, the
    second takes the other shard as well, and the first writes nothing when it wakes."""
    ring0, tenants = server.system, tenants_in_shards(2)
    first = LocalControllers(server, tmp_path / "a", "--shards", "2", *LEASE)
    second = LocalControllers(server, tmp_path / "b", "--shards", "2", *LEASE)
    with first:
        wait_until(lambda: all(shard_holders(ring0, 2)))
        burst = Burst(ring0)
        for tenant in tenants:
            burst.make(tenant)
        wait_until(lambda: not burst.differences())
        revision = ring0.get("/api/v1/tenants").json["metadata"]["resourceVersion"]
        second.start()
        try:
            for tenant in tenants:
                make_replicas(ring0, tenant, 100)
            assert second.wait().startswith("leading shard ")
            wait_until(lambda: len(set(shard_holders(ring0, 2))) == 2)
            wait_until(lambda: all(len(pods(ring0, tenant)) == 100 for tenant in tenants), seconds_max=200)
            for tenant in tenants:
                path = f"/apis/apps/v1/tenants/{tenant}/namespaces/default/replicasets/rs"
                assert ring0.patch(path, {"spec": {"replicas": 200}}).status == 200
            wait_until(lambda: all(len(pods(ring0, tenant)) > 110 for tenant in tenants))
            held = [holder_of(ring0, index, 2) for index in range(2)]
            first.send(signal.SIGSTOP)
            wait_until(lambda: len(set(shard_holders(ring0, 2))) == 1)
            assert [late_write(ring0, index, 2, holder) for index, holder in enumerate(held)].count(409) == 1
            wait_until(lambda: all(len(pods(ring0, tenant)) == 200 for tenant in tenants), seconds_max=200)
            first.send(signal.SIGCONT)
            wait_until(lambda: "lost leadership" in first.log)
            wait_until(lambda: len(set(shard_holders(ring0, 2))) == 2)
            assert [made_since(ring0, tenant, revision) for tenant in tenants] == [200, 200]
        finally:
            second.stop()

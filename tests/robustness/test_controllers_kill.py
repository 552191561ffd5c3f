"""The controllers are killed and cut off at random while tenants work; in the end all is as it should be.

Whatever the schedule of kills, broken connections and slow answers: every tenant that was created and not
deleted has all its first objects, every namespace its account and certificate, dependents exist exactly
if their owners do, replica sets have just as many pods as they ask for, and deleted tenants left nothing.
"""

import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from alcove.testing.controlplane import LocalControllers
from alcove.testing.relay import BadNetwork
from alcove.testing.server import Caller, LocalServer, changes_since, wait_until

LEASE = ("--lease-seconds", "4")
STEPS = 60
TENANTS = 4
FIRST = ("default", "kube-public", "kube-system")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[LocalServer]:
    with LocalServer(tmp_path / "server") as running:
        yield running


class Model:
    """The expected objects, as far as the users know."""

    def __init__(self, ring0: Caller, chance: random.Random) -> None:
        self._ring0 = ring0
        self._chance = chance
        self.tenants: dict[str, set[str]] = {}
        self.deleted: set[str] = set()
        self.owned: dict[tuple[str, str], bool] = {}
        """(tenant, owner) → whether the owner is there."""
        self.replicas: dict[str, int] = {}
        self._number = 0

    def step(self) -> None:
        """One action of a user; actions that the server rejects for now are skipped."""
        steps = [self.make_tenant, self.make_namespace, self.make_pair, self.drop_owner, self.scale]
        self._chance.choice([*steps, self.delete_tenant, self.touch])()

    def _any(self) -> str | None:
        return self._chance.choice(sorted(self.tenants)) if self.tenants else None

    def _post(self, path: str, body: dict[str, Any]) -> bool:
        return self._ring0.post(path, body).status == 201

    def make_tenant(self) -> None:
        self._number += 1
        name = f"t{self._number}"
        if len(self.tenants) < TENANTS and self._post("/api/v1/tenants", {"metadata": {"name": name}}):
            self.tenants[name] = set(FIRST)

    def delete_tenant(self) -> None:
        name = self._any()
        if name and len(self.tenants) == TENANTS:
            self._ring0.delete(f"/api/v1/tenants/{name}")
            del self.tenants[name]
            self.deleted.add(name)

    def make_namespace(self) -> None:
        self._number += 1
        tenant, name = self._any(), f"n{self._number}"
        if tenant and self._post(f"/api/v1/tenants/{tenant}/namespaces", {"metadata": {"name": name}}):
            self.tenants[tenant].add(name)

    def make_pair(self) -> None:
        self._number += 1
        tenant, name = self._any(), f"o{self._number}"
        path = f"/api/v1/tenants/{tenant}/namespaces/default/configmaps"
        if not tenant or not self._post(path, {"metadata": {"name": name}}):
            return
        owner = self._ring0.get(f"{path}/{name}").json["metadata"]
        reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": owner["uid"]}
        self._post(path, {"metadata": {"name": f"{name}-d", "ownerReferences": [reference]}})
        self.owned[tenant, name] = True

    def drop_owner(self) -> None:
        there = [mark for mark, is_there in self.owned.items() if is_there and mark[0] in self.tenants]
        if there:
            tenant, name = self._chance.choice(there)
            self._ring0.delete(f"/api/v1/tenants/{tenant}/namespaces/default/configmaps/{name}")
            self.owned[tenant, name] = False

    def scale(self) -> None:
        tenant, wanted = self._any(), self._chance.randint(0, 12)
        path = f"/apis/apps/v1/tenants/{tenant}/namespaces/default/replicasets"
        template = {
            "metadata": {"labels": {"app": "a"}},
            "spec": {"containers": [{"name": "c", "image": "i"}], "automountServiceAccountToken": False},
        }
        spec = {"replicas": wanted, "selector": {"matchLabels": {"app": "a"}}, "template": template}
        if tenant in self.replicas:
            self._ring0.patch(f"{path}/rs", {"spec": {"replicas": wanted}})
        elif not tenant or not self._post(path, {"metadata": {"name": "rs"}, "spec": spec}):
            return
        self.replicas[tenant] = wanted

    def touch(self) -> None:
        """Writes to what the controllers write to as well."""
        tenant = self._any()
        if tenant:
            label = {"metadata": {"labels": {"touched": str(self._number)}}}
            self._ring0.patch(f"/api/v1/tenants/{tenant}", label)
            self._ring0.patch(f"/api/v1/tenants/{tenant}/namespaces/default", label)

    # What there is

    def differences(self) -> list[str]:
        found = [each["metadata"]["name"] for each in self._ring0.get("/api/v1/tenants").json["items"]]
        wrong = [] if set(found) == {"system", *self.tenants} else [f"tenants {sorted(found)}"]
        for tenant, namespaces in self.tenants.items():
            wrong += self._first_objects(tenant) + self._namespaces(tenant, namespaces) + self._pods(tenant)
        for (tenant, name), is_there in self.owned.items():
            path = f"/api/v1/tenants/{tenant}/namespaces/default/configmaps/{name}-d"
            if tenant in self.tenants and (self._ring0.get(path).status == 200) is not is_there:
                wrong.append(f"{tenant} {name}-d is{' not' * is_there} there")
        return wrong

    def _first_objects(self, tenant: str) -> list[str]:
        paths = (
            f"/apis/rbac.authorization.k8s.io/v1/tenants/{tenant}/clusterroles/admin-role",
            f"/apis/rbac.authorization.k8s.io/v1/tenants/{tenant}/clusterrolebindings/admin-role-binding",
            f"/apis/arktos.futurewei.com/v1/tenants/{tenant}/networks/default",
        )
        return [f"no {path}" for path in paths if self._ring0.get(path).status != 200]

    def _namespaces(self, tenant: str, wanted: set[str]) -> list[str]:
        base = f"/api/v1/tenants/{tenant}/namespaces"
        found = {each["metadata"]["name"] for each in self._ring0.get(base).json["items"]}
        wrong = [] if found == wanted else [f"{tenant} has {sorted(found)}, not {sorted(wanted)}"]
        for name in wanted:
            for what in ("serviceaccounts/default", "configmaps/kube-root-ca.crt"):
                if self._ring0.get(f"{base}/{name}/{what}").status != 200:
                    wrong.append(f"{tenant}/{name} has no {what}")
        return wrong

    def _pods(self, tenant: str) -> list[str]:
        wanted = self.replicas.get(tenant, 0)
        pods = self._ring0.get(f"/api/v1/tenants/{tenant}/namespaces/default/pods").json["items"]
        return [] if len(pods) == wanted else [f"{tenant} has {len(pods)} pods, not {wanted}"]

    def left_behind(self) -> list[str]:
        wrong = []
        for resource in ("namespaces", "configmaps", "serviceaccounts", "pods", "events", "services"):
            items = self._ring0.get(f"/api/v1/tenants/all/{resource}").json["items"]
            tenants = {each["metadata"]["tenant"] for each in items}
            wrong += [f"{resource} of {tenant}" for tenant in tenants & self.deleted]
        return wrong


def redirected(server: LocalServer, network: BadNetwork, directory: Path) -> Path:
    path = directory / "through.kubeconfig"
    text = server.admin_kubeconfig.read_text()
    path.write_text(text.replace(f":{server.address[1]}/", f":{network.port}/"))
    return path


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 6))])
@pytest.mark.timeout(600)
def test_everything_converges_whatever_happens(server: LocalServer, tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    model = Model(server.system, chance)
    with BadNetwork(server.address, seed) as network:
        through = redirected(server, network, tmp_path)
        controllers = LocalControllers(server, tmp_path, *LEASE, kubeconfig=through)
        controllers.start()
        network.is_rough = True
        for _ in range(STEPS):
            model.step()
            match chance.random():
                case luck if luck < 0.08:
                    controllers.kill()
                    controllers.start()
                case luck if luck < 0.16:
                    network.cut()
                case luck if luck < 0.5:
                    time.sleep(chance.random() * 0.3)
        network.is_rough = False
        try:
            wait_until(lambda: not model.differences() and not model.left_behind(), seconds_max=150)
        except AssertionError:
            message = "\n".join([*model.differences(), *model.left_behind(), controllers.log[-3000:]])
            pytest.fail(message)
        finally:
            controllers.stop()


@pytest.mark.timeout(600)
def test_another_takes_over_and_nothing_is_made_twice(server: LocalServer, tmp_path: Path) -> None:
    """Pods are counted: each that was ever created either exists or left a deletion event."""
    first = LocalControllers(server, tmp_path / "a", *LEASE)
    second = LocalControllers(server, tmp_path / "b", *LEASE)
    model = Model(server.system, random.Random(0))
    with first:
        second.start()
        try:
            model.make_tenant()
            wait_until(lambda: not model.differences())
            revision = server.system.get("/api/v1/tenants/t1/pods").json["metadata"]["resourceVersion"]
            make_replicas(server.system, "t1", 120)
            wait_until(lambda: len(pods(server.system, "t1")) > 20)
            first.kill()
            second.wait()
            wait_until(lambda: len(pods(server.system, "t1")) == 120, seconds_max=200)
            assert made_since(server.system, "t1", revision) == 120
        finally:
            second.stop()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_paused_leader_writes_nothing_after_it_wakes(server: LocalServer, tmp_path: Path) -> None:
    first = LocalControllers(server, tmp_path / "a", *LEASE)
    second = LocalControllers(server, tmp_path / "b", *LEASE)
    model = Model(server.system, random.Random(0))
    with first:
        second.start()
        try:
            model.make_tenant()
            wait_until(lambda: not model.differences())
            revision = server.system.get("/api/v1/tenants/t1/pods").json["metadata"]["resourceVersion"]
            make_replicas(server.system, "t1", 150)
            wait_until(lambda: len(pods(server.system, "t1")) > 10)
            first.send(signal.SIGSTOP)
            second.wait()
            wait_until(lambda: len(pods(server.system, "t1")) == 150, seconds_max=200)
            first.send(signal.SIGCONT)
            wait_until(lambda: "lost leadership" in first.log)
            assert made_since(server.system, "t1", revision) == 150
        finally:
            second.stop()


def make_replicas(ring0: Caller, tenant: str, count: int) -> None:
    template = {
        "metadata": {"labels": {"app": "a"}},
        "spec": {"containers": [{"name": "c", "image": "i"}], "automountServiceAccountToken": False},
    }
    spec = {"replicas": count, "selector": {"matchLabels": {"app": "a"}}, "template": template}
    path = f"/apis/apps/v1/tenants/{tenant}/namespaces/default/replicasets"
    assert ring0.post(path, {"metadata": {"name": "rs"}, "spec": spec}).status == 201


def pods(ring0: Caller, tenant: str) -> list[Any]:
    found: list[Any] = ring0.get(f"/api/v1/tenants/{tenant}/pods").json["items"]
    return found


def made_since(ring0: Caller, tenant: str, revision: str) -> int:
    """The number of pods that were ever created, deleted ones included."""
    events = changes_since(ring0, f"/api/v1/tenants/{tenant}/pods", revision)
    return sum(event["type"] == "ADDED" for event in events)

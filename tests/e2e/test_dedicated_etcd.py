"""A tenant with several API servers on an etcd of its own: they are replaced one after another, and nobody notices."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest

from alcove.api.objects import Object, get
from alcove.controllers.planes import manifests
from alcove.testing import cluster as real
from alcove.testing import etcd
from alcove.testing.authorities import aged
from alcove.testing.cluster import RealCluster, condition
from alcove.testing.dedicated import READY_SECONDS_MAX, RING0, DedicatedTenants
from alcove.testing.server import Caller, wait_until

LACKING = real.lacking() or etcd.lacking()
pytestmark = [pytest.mark.skipif(bool(LACKING), reason=LACKING), pytest.mark.slow]

SETS = "/apis/apps/v1/namespaces/kube-system/statefulsets"
MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture(scope="module")
def dedicated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DedicatedTenants]:
    directory = tmp_path_factory.mktemp("etcd")
    with RealCluster(directory) as cluster:
        yield DedicatedTenants(cluster, directory)


@pytest.fixture(scope="module")
def acme(dedicated: DedicatedTenants) -> Caller:
    """Its administrator, at the home plane's address."""
    dedicated.create("acme", replicas=3, storage={"type": "etcd", "size": "512Mi"})
    wait_until(lambda: len(endpoints(dedicated)) == 3, READY_SECONDS_MAX)
    return dedicated.at_home("acme")


def endpoints(dedicated: DedicatedTenants) -> list[str]:
    return list(get(dedicated.tenant("acme"), "status", "controlPlane", "endpoints", default=()))


def pods(dedicated: DedicatedTenants) -> dict[str, Object]:
    query = f"{RING0}/pods?labelSelector={manifests.LABEL}=acme"
    return {each["metadata"]["name"]: each for each in dedicated.system.get(query).json["items"]}


class Polling:
    """Writes and reads again and again, and remembers what failed."""

    def __init__(self, caller: Caller, name: str) -> None:
        self._caller, self._name = caller, name
        self.failures: list[str] = []
        self.rounds = 0

    def run(self, stop: threading.Event) -> None:
        made = self._caller.post(MAPS, {"metadata": {"name": self._name}})
        assert made.status == 201, made.body
        while not stop.is_set():
            self.rounds += 1
            value = str(self.rounds)
            try:
                written = self._caller.patch(f"{MAPS}/{self._name}", {"data": {"round": value}})
                read = self._caller.get(f"{MAPS}/{self._name}")
            except OSError as error:
                self.failures.append(f"{self.rounds}: {error!r}")
                continue
            if (written.status, read.status) != (200, 200) or read.json["data"]["round"] != value:
                self.failures.append(f"{self.rounds}: {written.body!r} {read.body!r}")


@contextmanager
def polling(caller: Caller, name: str) -> Iterator[Polling]:
    stop, polls = threading.Event(), Polling(caller, name)
    thread = threading.Thread(target=polls.run, args=(stop,))
    thread.start()
    try:
        yield polls
    finally:
        stop.set()
        thread.join()
    assert polls.rounds > 20 and not polls.failures, (polls.rounds, polls.failures)


def test_the_servers_share_one_store(dedicated: DedicatedTenants, acme: Caller) -> None:
    names = {"plane-acme-0", "plane1-acme-0", "plane2-acme-0", "planestore-acme-0"}
    assert set(pods(dedicated)) == names
    tenant = dedicated.tenant("acme")
    assert condition(tenant, "StoreReady") == "True" and tenant["status"]["endpoint"] in endpoints(dedicated)
    assert acme.post(MAPS, {"metadata": {"name": "shared"}}).status == 201
    for url in endpoints(dedicated):
        assert dedicated.at("acme", url).get(f"{MAPS}/shared").status == 200
    real.create(acme, real.pod("web", "sleep 1000"))
    real.ready(acme, "web", READY_SECONDS_MAX)


def replaced(dedicated: DedicatedTenants, before: dict[str, Object]) -> bool:
    """Whether all API servers are others, and ready; etcd is the same one."""
    now = pods(dedicated)
    uids = {name: each["metadata"]["uid"] for name, each in now.items()}
    same = [name for name in uids if uids[name] == before[name]["metadata"]["uid"]]
    return same == ["planestore-acme-0"] and len(now) == 4 and len(endpoints(dedicated)) == 3


def test_another_version_goes_from_server_to_server(dedicated: DedicatedTenants, acme: Caller) -> None:
    """The image of another version is the same program here; that its name is another one replaces the pods."""
    dedicated.add_version("9.9")
    before = pods(dedicated)
    with polling(acme, "upgrade"):
        change = {"spec": {"controlPlane": {"version": "9.9"}}}
        assert dedicated.system.patch("/api/v1/tenants/acme", change).status == 200
        wait_until(lambda: replaced(dedicated, before), READY_SECONDS_MAX)
    assert dedicated.tenant("acme")["status"]["controlPlane"]["version"] == "9.9"


def test_another_authority_goes_from_server_to_server(dedicated: DedicatedTenants, acme: Caller) -> None:
    """Who has a certificate of the one before, and trusts it, is served all the time."""
    before, path = pods(dedicated), f"{RING0}/secrets/plane-acme"
    keys = manifests.decoded(dedicated.system.get(path).json)
    old = aged(keys["ca.crt"], keys["ca.key"], timedelta(days=100))
    with polling(acme, "rotation"):
        change = {"data": manifests.encoded({"ca.crt": old})}
        assert dedicated.system.patch(path, change).status == 200
        wait_until(lambda: replaced(dedicated, before), READY_SECONDS_MAX)
    renewed = manifests.decoded(dedicated.system.get(path).json)
    assert renewed["ca-before.crt"] == old and renewed["ca.crt"] not in (old, keys["ca.crt"])
    assert renewed["sa.key"] == keys["sa.key"] and renewed["etcd.crt"] == keys["etcd.crt"]
    logs = "/api/v1/namespaces/default/pods/web/log"
    wait_until(lambda: acme.get(logs).status == 200, READY_SECONDS_MAX)


def test_a_killed_server_is_not_missed(dedicated: DedicatedTenants, acme: Caller) -> None:
    for _ in range(3):
        pid = dedicated.plane_pid("acme")
        os.kill(pid, signal.SIGKILL)
        # A request that was on its way may fail; the next ones are answered by the others.
        wait_until(lambda: acme.get(f"{MAPS}/shared").status == 200)
        assert all(acme.get(f"{MAPS}/shared").status == 200 for _ in range(20))
        wait_until(lambda: len(endpoints(dedicated)) == 3, READY_SECONDS_MAX)


def test_a_killed_etcd_comes_back_with_everything(dedicated: DedicatedTenants, acme: Caller) -> None:
    pid = dedicated.etcd_pid("acme")
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: dedicated.etcd_pid("acme") not in (0, pid), READY_SECONDS_MAX)
    change = {"data": {"after": "kill"}}
    wait_until(lambda: acme.patch(f"{MAPS}/shared", change).status == 200, READY_SECONDS_MAX)
    assert acme.get(f"{MAPS}/upgrade").status == 200


def test_fewer_servers_and_sleep(dedicated: DedicatedTenants, acme: Caller) -> None:
    path = "/api/v1/tenants/acme"
    assert dedicated.system.patch(path, {"spec": {"controlPlane": {"replicas": 1}}}).status == 200
    wait_until(lambda: set(pods(dedicated)) == {"plane-acme-0", "planestore-acme-0"}, READY_SECONDS_MAX)
    wait_until(lambda: not endpoints(dedicated), READY_SECONDS_MAX)
    assert acme.get(f"{MAPS}/shared").status == 200
    assert dedicated.system.patch(path, {"spec": {"sleep": {"asleep": True}}}).status == 200
    wait_until(lambda: not pods(dedicated), READY_SECONDS_MAX)
    assert acme.get(f"{MAPS}/shared").json["data"] == {"after": "kill"}, "it wakes for a request"
    assert dedicated.system.patch(path, {"spec": {"sleep": None}}).status == 200
    real.ready(acme, "web", READY_SECONDS_MAX)


def test_a_deleted_tenant_leaves_nothing(dedicated: DedicatedTenants, acme: Caller) -> None:
    assert acme.get(f"{MAPS}/shared").status == 200
    assert dedicated.system.delete("/api/v1/tenants/acme").status == 200
    wait_until(lambda: dedicated.system.get("/api/v1/tenants/acme").status == 404, READY_SECONDS_MAX)
    query = f"?labelSelector={manifests.LABEL}=acme"
    for path in (SETS, f"{RING0}/secrets", f"{RING0}/persistentvolumeclaims", f"{RING0}/pods"):
        wait_until(lambda path=path: not dedicated.system.get(path + query).json["items"], READY_SECONDS_MAX)
    wait_until(lambda: dedicated.etcd_pid("acme") == 0, READY_SECONDS_MAX)
    wait_until(lambda: not dedicated.system.get("/api/v1/persistentvolumes").json["items"], READY_SECONDS_MAX)


def test_a_tenant_moves_to_servers_on_etcd_and_back(dedicated: DedicatedTenants) -> None:
    mover, path = dedicated.cluster.make_tenant("mover"), "/api/v1/tenants/mover"
    assert mover.post(MAPS, {"metadata": {"name": "moved"}, "data": {"a": "b"}}).status == 201
    real.create(mover, real.pod("web", "sleep 1000"))
    real.ready(mover, "web", READY_SECONDS_MAX)
    kept = [mover.get(each).json["metadata"]["uid"] for each in (f"{MAPS}/moved", f"{real.PODS}/web")]

    def has_moved(mode: str) -> bool:
        tenant = dedicated.tenant("mover")
        is_served = get(tenant, "status", "controlPlane", "mode", default="") == mode
        return is_served and condition(tenant, "Moving") == "False"

    for mode in ("Dedicated", "Shared"):
        plane = {"mode": mode, "replicas": 2, "storage": {"type": "etcd", "size": "512Mi"}}
        assert dedicated.system.patch(path, {"spec": {"controlPlane": plane}}).status == 200
        wait_until(lambda mode=mode: has_moved(mode), READY_SECONDS_MAX)
        now = [mover.get(each).json["metadata"]["uid"] for each in (f"{MAPS}/moved", f"{real.PODS}/web")]
        assert now == kept
        assert mover.patch(f"{MAPS}/moved", {"data": {"mode": mode}}).status == 200
    assert mover.get(f"{MAPS}/moved").json["data"] == {"a": "b", "mode": "Shared"}

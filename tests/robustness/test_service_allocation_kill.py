"""Services that are created at two API servers at once, which are killed in between: no address and no port is given
twice, none is lost, and none stays behind."""

import http.client
import random
import shutil
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from alcove.api.objects import Object
from alcove.testing import etcd
from alcove.testing.etcd import EtcdCluster
from alcove.testing.failover import SHARED_KEYS
from alcove.testing.server import Caller, LocalServer, wait_until

ROUNDS = 3
WRITERS = 3
SERVICES = "/api/v1/namespaces/default/services"
ADDRESSES = "/apis/networking.k8s.io/v1/ipaddresses"
NETWORKS = "/apis/arktos.futurewei.com/v1/networks"
ENDPOINTS = "/apis/mizar.com/v1/endpoints"


class Writer(threading.Thread):
    """Creates services, deletes every third one, and remembers what it was told."""

    def __init__(self, caller: Caller, prefix: str, made: dict[str, str], full: list[str]) -> None:
        super().__init__()
        self._caller = Caller(caller.kubeconfig)
        self._prefix = prefix
        self._made = made
        self._full = full

    def run(self) -> None:
        try:
            for number in range(10_000):
                name = f"{self._prefix}-{number}"
                body = {"metadata": {"name": name}, "spec": {"type": "NodePort", "ports": [{"port": 80}]}}
                answer = self._caller.post(SERVICES, body)
                if answer.status != 201:
                    self._full.append(answer.json["message"])
                    return
                self._made[name] = answer.json["spec"]["clusterIP"]
                if number % 3 == 0:
                    gone = self._made.pop(name)
                    if self._caller.delete(f"{SERVICES}/{name}").status != 200:
                        self._made[name] = gone
        except (http.client.HTTPException, OSError):
            pass
        finally:
            self._caller.close()


def check(server: LocalServer, made: dict[str, str]) -> None:
    """What exists agrees with what claims it, and with what was acknowledged."""
    tenant = server.as_tenant("acme")
    services: list[Object] = tenant.get(SERVICES).json["items"]
    addresses = {each["metadata"]["name"]: each["spec"]["clusterIP"] for each in services}
    assert max(Counter(addresses.values()).values(), default=1) == 1, "an address was given twice"
    assert made.items() <= addresses.items(), "an acknowledged service has another address, or is gone"
    claims = tenant.get(ADDRESSES).json["items"]
    assert {each["metadata"]["name"]: each["spec"]["parentRef"]["name"] for each in claims} == {
        address: name for name, address in addresses.items()
    }
    ports = [f"port-{each['spec']['ports'][0]['nodePort']}-tcp" for each in services]
    held = [each["metadata"]["name"] for each in server.system.get(ENDPOINTS).json["items"]]
    assert sorted(ports) == sorted(held), "a node port was given twice, or stays behind"


def set_up(server: LocalServer) -> None:
    tenant = server.make_tenant("acme")
    spec = {"type": "flat", "service": {"cidrs": ["10.7.0.0/25"]}}
    assert tenant.post(NETWORKS, {"metadata": {"name": "default"}, "spec": spec}).status == 201
    quota = {"spec": {"quota": {"hard": {"services.nodeports": "1000"}}}}
    assert server.system.patch("/api/v1/tenants/acme", quota).status == 200


def rush(servers: list[LocalServer], label: str, victim: LocalServer | None) -> dict[str, str]:
    made: dict[str, str] = {}
    full: list[str] = []
    writers = [
        Writer(server.as_tenant("acme"), f"{label}-{index}-{number}", made, full)
        for index, server in enumerate(servers)
        for number in range(WRITERS)
    ]
    for writer in writers:
        writer.start()
    if victim is not None:
        wait_until(lambda: len(made) >= WRITERS or full)
        time.sleep(random.uniform(0.0, 0.7))
        victim.kill()
    for writer in writers:
        writer.join(120)
        assert not writer.is_alive()
    assert all("range is full" in each for each in full), full
    return made


@pytest.mark.slow
def test_one_server_on_its_own_store(tmp_path: Path) -> None:
    server = LocalServer(tmp_path)
    server.start()
    set_up(server)
    known: dict[str, str] = {}
    for number in range(ROUNDS):
        known |= rush([server], f"r{number}", server)
        server.start()
        check(server, known)
    rush([server], "full", None)
    assert server.as_tenant("acme").delete(SERVICES).status == 200
    check(server, {})
    server.stop()


@pytest.mark.skipif(bool(etcd.lacking()), reason=etcd.lacking())
def test_two_servers_on_one_etcd(tmp_path: Path) -> None:
    with EtcdCluster(tmp_path / "etcd") as cluster:
        first = LocalServer(tmp_path / "one", *cluster.options())
        second = LocalServer(tmp_path / "two", *cluster.options())
        (tmp_path / "one").mkdir()
        first.start()
        (tmp_path / "two" / "pki").mkdir(parents=True)
        for name in SHARED_KEYS:
            shutil.copy(tmp_path / "one" / "pki" / name, tmp_path / "two" / "pki" / name)
        second.start()
        set_up(first)
        known: dict[str, str] = {}
        for number in range(2):
            known |= rush([first, second], f"r{number}", second)
            second.start()
            check(second, known)
        assert first.as_tenant("acme").delete(SERVICES).status == 200
        check(second, {})
        rush([first, second], "both", None)
        check(first, {})
        first.stop()
        second.stop()

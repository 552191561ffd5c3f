"""Backup and restore of a cluster at work, and what its clients see; a store of another version."""

import shutil
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import kubernetes
import orjson
import pytest

from alcove.processes import down
from alcove.testing.claims import free_port
from alcove.testing.cluster import condition
from alcove.testing.load import MAPS, LoadClient, LoadWriter
from alcove.testing.server import Caller, LocalServer, wait_until

WRITES_AT_LEAST = 20
BACKUP_GAP_SECONDS_MAX = 20.0
"""Far more than a backup of a small store may stop writes, for a machine that does much else."""
FIRST_FORMAT = """
PRAGMA application_id = 1097622390;
PRAGMA user_version = 1;
CREATE TABLE log (
    id INTEGER PRIMARY KEY,
    change INTEGER NOT NULL,
    replaces INTEGER NOT NULL,
    resource TEXT NOT NULL,
    tenant TEXT NOT NULL,
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    body BLOB NOT NULL
);
CREATE INDEX log_by_key ON log (resource, tenant, namespace, name);
CREATE TABLE meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO meta VALUES ('compacted', 0), ('swept', 0);
"""
untyped_config: Any = kubernetes.config
untyped_watch: Any = kubernetes.watch


def alcove(*words: str, fails: str = "") -> str:
    """What the command says; with `fails`, it must fail and say that."""
    command = [sys.executable, "-m", "alcove.processes.main", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=150)
    message = done.stdout + done.stderr
    assert "Traceback" not in message
    assert (done.returncode == 0) is not bool(fails) and fails in message, message
    return message


def watched(caller: Caller, revision: object) -> list[Any]:
    """The events of a short watch."""
    body = caller.get(f"{MAPS}?watch=true&resourceVersion={revision}&timeoutSeconds=1").body
    return [orjson.loads(line) for line in body.splitlines()]


def revision_of(caller: Caller) -> int:
    return int(caller.get(MAPS).json["metadata"]["resourceVersion"])


def write_more(writer: LoadWriter) -> None:
    wanted = len(writer.times) + WRITES_AT_LEAST
    wait_until(lambda: len(writer.times) >= wanted)


def test_a_backup_while_tenants_write_has_all_that_was_acknowledged(tmp_path: Path) -> None:
    file = tmp_path / "backup.tar"
    with LocalServer(tmp_path / "old") as server:
        acme = server.make_tenant("acme")
        body = {"metadata": {"name": ""}, "data": {"filling": "x" * 4000}}
        writer = LoadWriter(
            "m",
            [LoadClient(acme.kubeconfig)],
            MAPS,
            lambda name: {**body, "metadata": {"name": name}},
        )
        writer.start()
        write_more(writer)
        before, began = dict(writer.acknowledged), time.monotonic()
        alcove("backup", str(file), "--data", str(tmp_path / "old"))
        write_more(writer)
        gap = writer.longest_gap(began, time.monotonic())
        writer.stop()
        assert gap < BACKUP_GAP_SECONDS_MAX and not writer.refusals
    alcove("restore", str(file), "--data", str(tmp_path / "new"))
    with LocalServer(tmp_path / "new", port=server.address[1]):
        # The same authority and the same place: the credential of before is good.
        items = acme.get(MAPS).json["items"]
    found = {each["metadata"]["name"]: int(each["metadata"]["resourceVersion"]) for each in items}
    assert {name: found.get(name) for name in before} == before
    upto = max(found.values())
    assert found == {name: at for name, at in writer.acknowledged.items() if at <= upto}, "not one moment"


def test_clients_of_a_restored_cluster_list_anew(tmp_path: Path) -> None:
    data, file = tmp_path / "data", tmp_path / "backup.tar"
    server = LocalServer(data)
    with server:
        acme = server.make_tenant("acme")
        acme.post(MAPS, {"metadata": {"name": "kept"}})
        then = revision_of(acme)
        alcove("backup", str(file), "--data", str(data))
        for number in range(20):
            acme.post(MAPS, {"metadata": {"name": f"lost-{number}"}})
        seen = revision_of(acme)
        alcove("restore", str(file), "--data", str(data), "--replace", fails="stop its API server first")
    alcove("restore", str(file), "--data", str(data), fails="--replace")
    message = alcove("restore", str(file), "--data", str(data), "--replace")
    assert "the cluster continues at revision" in message
    with server:
        for known in (then, seen):
            (event,) = watched(acme, known)
            assert (event["type"], event["object"]["code"]) == ("ERROR", 410)
        listed = revision_of(acme)
        assert listed > seen, "revisions went back"
        made = acme.post(MAPS, {"metadata": {"name": "new"}}).json
        assert int(made["metadata"]["resourceVersion"]) > listed
        assert [each["object"]["metadata"]["name"] for each in watched(acme, listed)] == ["new"]
        names = {each["metadata"]["name"] for each in acme.get(MAPS).json["items"]}
        assert names == {"kept", "new"}


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_a_whole_cluster_goes_back_to_its_backup_and_on(tmp_path: Path) -> None:
    """The procedure of docs/operating.md, on hollow nodes: what runs is what the backup had, and more can be made."""
    data, file, kubeconfig = tmp_path / "data", tmp_path / "backup.tar", tmp_path / "acme.kubeconfig"
    data_option = ("--data", str(data))
    up = ("up", "--hollow", "--no-demo", *data_option, "--port", str(free_port()))
    try:
        alcove(*up)
        way = ("--kubeconfig", str(data / "admin.kubeconfig"))
        alcove("tenant", "create", "acme", *way)
        alcove("tenant", "kubeconfig", "acme", "--output", str(kubeconfig), *way)
        acme = Caller(kubeconfig)
        deploy(acme, "kept", 2)
        alcove("backup", str(file), *data_option)
        deploy(acme, "lost", 2)
        acme.close()
        alcove("down", *data_option)
        alcove("restore", str(file), "--replace", *data_option)
        alcove(*up)
        wait_until(lambda: owners(acme) == {"kept": 2})
        deploy(acme, "new", 1)
        wait_until(lambda: owners(acme) == {"kept": 2, "new": 1})
        acme.close()
    finally:
        down.destroy(data)


def deploy(caller: Caller, name: str, replicas: int) -> None:
    """Returns when its pods are ready."""
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    path = "/apis/apps/v1/namespaces/default/deployments"
    assert caller.post(path, {"metadata": {"name": name}, "spec": spec}).status == 201
    wait_until(lambda: caller.get(f"{path}/{name}").json.get("status", {}).get("readyReplicas") == replicas)


def owners(caller: Caller) -> dict[str, int]:
    """How many pods of each Deployment are ready."""
    found: Counter[str] = Counter()
    for pod in caller.get("/api/v1/namespaces/default/pods").json["items"]:
        if condition(pod, "Ready") == "True" and "deletionTimestamp" not in pod["metadata"]:
            found[pod["metadata"]["labels"]["app"]] += 1
    return dict(found)


def test_a_watch_from_a_future_that_is_gone_expires(tmp_path: Path) -> None:
    """As after an older file was copied back by hand: there, revisions do go back."""
    server = LocalServer(tmp_path / "data")
    with server:
        acme = server.make_tenant("acme")
    shutil.copy(tmp_path / "data" / "store.db", tmp_path / "older.db")
    with server:
        for number in range(20):
            acme.post(MAPS, {"metadata": {"name": f"lost-{number}"}})
        seen = revision_of(acme)
    shutil.copy(tmp_path / "older.db", tmp_path / "data" / "store.db")
    with server:
        acme.post(MAPS, {"metadata": {"name": "new"}})
        (event,) = watched(acme, seen)
        assert (event["type"], event["object"]["code"]) == ("ERROR", 410)
        core = kubernetes.client.CoreV1Api(untyped_config.new_client_from_config(str(acme.kubeconfig)))
        stream = untyped_watch.Watch().stream(
            core.list_namespaced_config_map, "default", resource_version=str(seen), timeout_seconds=60
        )
        with pytest.raises(kubernetes.client.ApiException) as expired:
            next(stream)
        assert expired.value.status == 410


def test_a_store_of_the_first_format_is_served(tmp_path: Path) -> None:
    """What the first version wrote; a later form must still read it, or turn it into its own."""
    data = tmp_path / "data"
    data.mkdir()
    connection = sqlite3.connect(data / "store.db")
    connection.executescript(FIRST_FORMAT)
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "old",
            "namespace": "default",
            "tenant": "system",
            "uid": "00000000-0000-4000-8000-000000000001",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "selfLink": "/api/v1/tenants/system/namespaces/default/configmaps/old",
        },
        "data": {"v": "1"},
    }
    row = (7 << 8, 1, 0, "configmaps", "system", "default", "old", orjson.dumps(body))
    connection.execute("INSERT INTO log VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
    connection.commit()
    connection.close()
    with LocalServer(data) as server:
        found = server.system.get(f"{MAPS}/old").json
        assert found["data"] == {"v": "1"} and found["metadata"]["resourceVersion"] == "7"
        assert server.system.patch(f"{MAPS}/old", {"data": {"v": "2"}}).status == 200


def test_a_store_of_a_newer_version_is_refused_and_left_alone(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with LocalServer(data):
        pass
    connection = sqlite3.connect(data / "store.db")
    connection.execute("PRAGMA user_version = 2")
    connection.close()
    before = (data / "store.db").read_bytes()
    alcove(
        "apiserver", "--data", str(data), "--port", "0", fails="has format 2, but this version reads up to 1"
    )
    assert (data / "store.db").read_bytes() == before

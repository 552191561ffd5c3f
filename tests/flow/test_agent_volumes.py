"""Volumes and images of a tenant's pods on a node that really runs them, from claim to wiping."""

import asyncio
import hashlib
import io
import signal
import tarfile
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from alcove.agent.images import builtin, commands
from alcove.api.objects import Object
from alcove.testing.cluster import PODS, RealCluster, ended, gone, lacking, pod, ready, until
from alcove.testing.server import Caller, wait_until

pytestmark = [pytest.mark.root, pytest.mark.skipif(bool(lacking()), reason=lacking() or "-")]
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
VOLUMES = "/api/v1/persistentvolumes"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    with RealCluster(tmp_path_factory.mktemp("volumes")) as running:
        yield running


@pytest.fixture(scope="module")
def acme(cluster: RealCluster) -> Caller:
    return cluster.make_tenant("acme")


def data_of(cluster: RealCluster) -> Path:
    return cluster.nodes[0].data


def mounts_of(cluster: RealCluster) -> list[str]:
    lines = Path("/proc/self/mounts").read_text().splitlines()
    return [line for line in lines if str(data_of(cluster) / "volumes") in line]


def claim(caller: Caller, name: str, size: str = "16Mi") -> None:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
    body = {"metadata": {"name": name}, "spec": {**spec, "storageClassName": "local"}}
    assert caller.post(CLAIMS, body).status == 201


def with_volumes(body: Object, **volumes: Object) -> Object:
    body["spec"]["volumes"] = [{"name": name, **source} for name, source in volumes.items()]
    body["spec"]["containers"][0]["volumeMounts"] = [
        {"name": name, "mountPath": f"/{name}"} for name in volumes
    ]
    return body


def run(caller: Caller, body: Object) -> Object:
    """The pod, ended; its last words are its termination message."""
    answer = caller.post(PODS, body)
    assert answer.status == 201, answer.body
    found = ended(caller, body["metadata"]["name"])
    state: Object = found["status"]["containerStatuses"][0]["state"]["terminated"]
    return state


def test_data_outlives_pods_and_not_its_claim(cluster: RealCluster, acme: Caller) -> None:
    claim(acme, "data")
    local = {"persistentVolumeClaim": {"claimName": "data"}}
    once = {"restartPolicy": "Never"}
    first = with_volumes(pod("first", "echo kept >/v/file", **once), v=local)
    assert run(acme, first)["exitCode"] == 0
    second = with_volumes(
        pod("second", "cat /v/file >/dev/termination-log; dd if=/dev/zero of=/v/big bs=1M count=32", **once),
        v=local,
    )
    state = run(acme, second)
    assert (state["message"], state["exitCode"]) == ("kept\n", 1), "it has its size and no more"
    volume = acme.get(f"{CLAIMS}/data").json["spec"]["volumeName"]
    assert list((data_of(cluster) / "volumes/local").glob("*.json"))
    for name in ("first", "second"):
        acme.delete(f"{PODS}/{name}")
        gone(acme, name)
    assert acme.delete(f"{CLAIMS}/data").status == 200
    wait_until(lambda: acme.get(f"{VOLUMES}/{volume}").status == 404)
    wait_until(lambda: not list((data_of(cluster) / "volumes/local").iterdir()))
    wait_until(lambda: not mounts_of(cluster))


def test_files_of_objects_and_a_token_that_the_api_knows(acme: Caller) -> None:
    assert (
        acme.post(
            "/api/v1/namespaces/default/configmaps", {"metadata": {"name": "m"}, "data": {"a": "1"}}
        ).status
        == 201
    )
    assert (
        acme.post(
            "/api/v1/namespaces/default/secrets", {"metadata": {"name": "s"}, "stringData": {"b": "2"}}
        ).status
        == 201
    )
    script = (
        "cat /m/a /s/b /d/name >/dev/termination-log; test -s /var/run/secrets/kubernetes.io/serviceaccount/token "
        "&& ! (echo x >/s/b) && echo x >/e/file"
    )
    body = with_volumes(
        pod("files", script, restartPolicy="Never"),
        m={"configMap": {"name": "m"}},
        s={"secret": {"secretName": "s"}},
        d={"downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}},
        e={"emptyDir": {"medium": "Memory"}},
    )
    state = run(acme, body)
    assert (state["message"], state["exitCode"]) == ("12files", 0)


def test_a_pod_waits_for_what_it_names_and_says_so(acme: Caller) -> None:
    body = with_volumes(pod("waits"), v={"configMap": {"name": "late"}})
    assert acme.post(PODS, body).status == 201

    def is_reported() -> bool:
        events = acme.get("/api/v1/namespaces/default/events?fieldSelector=involvedObject.name=waits").json
        return any('configmap "late" not found' in each["message"] for each in events["items"])

    wait_until(is_reported)
    until(acme, "waits", lambda found: _reason(found) == "ContainerCreating")
    assert acme.post("/api/v1/namespaces/default/configmaps", {"metadata": {"name": "late"}}).status == 201
    ready(acme, "waits")
    acme.delete(f"{PODS}/waits")
    gone(acme, "waits")


def test_volumes_outlive_the_agent_and_go_with_the_pod(cluster: RealCluster, acme: Caller) -> None:
    claim(acme, "kept")
    script = "echo one >/v/file; echo two >/scratch/file; while [ ! -e /scratch/go ]; do sleep 0.1; done; cat /v/file /scratch/file >/dev/termination-log"
    body = with_volumes(
        pod("outlives", script, restartPolicy="Never"),
        v={"persistentVolumeClaim": {"claimName": "kept"}},
        scratch={"emptyDir": {}},
    )
    assert acme.post(PODS, body).status == 201
    ready(acme, "outlives")
    agent = cluster.agents["n1"]
    agent.stop(signal.SIGKILL)
    [folder] = (data_of(cluster) / "volumes/pods").glob("*/empty/scratch")
    wait_until((folder / "file").exists)
    agent.start()
    agent.wait()
    (folder / "go").touch()
    state = ended(acme, "outlives")["status"]["containerStatuses"][0]["state"]["terminated"]
    assert state["message"] == "one\ntwo\n"
    acme.delete(f"{PODS}/outlives")
    gone(acme, "outlives")
    wait_until(lambda: not mounts_of(cluster))
    wait_until(lambda: not list((data_of(cluster) / "volumes/pods").iterdir()))


def _archive(folder: Path, name: str) -> Path:
    """The built-in image under another name, with a file of its own, as `docker save` makes it."""
    rootfs, layer = folder / "rootfs", folder / "layer.tar"
    rootfs.mkdir()
    builtin.build(builtin.find(), rootfs)
    (rootfs / "marker").write_text("loaded")
    with tarfile.open(layer, "w") as tar:
        tar.add(rootfs, ".")
    digest = hashlib.sha256(layer.read_bytes()).hexdigest()
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Env": ["PATH=/bin"], "Cmd": ["sh", "-c", "cat /marker >/dev/termination-log"]},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
    }
    manifest = [{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]
    with tarfile.open(folder / "x.tar", "w") as tar:
        tar.add(layer, "layer.tar")
        for path, value in (("config.json", config), ("manifest.json", manifest)):
            content = orjson.dumps(value)
            info = tarfile.TarInfo(path)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return folder / "x.tar"


def test_an_image_that_is_loaded_runs_at_once(cluster: RealCluster, acme: Caller, tmp_path: Path) -> None:
    never: Object = pod("loaded", restartPolicy="Never")
    never["spec"]["containers"][0] |= {"image": "shop/web:v1", "imagePullPolicy": "Never", "command": None}
    assert acme.post(PODS, never).status == 201
    until(acme, "loaded", lambda found: _reason(found) == "ErrImageNeverPull")
    archive = _archive(tmp_path, "shop/web:v1")
    asyncio.run(commands.load(data_of(cluster) / "images", archive))
    state = ended(acme, "loaded")["status"]["containerStatuses"][0]["state"]["terminated"]
    assert (state["message"], state["exitCode"]) == ("loaded", 0)
    refused: Object = pod("nowhere")
    refused["spec"]["containers"][0]["image"] = "UPPER/case"
    assert acme.post(PODS, refused).status == 201
    until(acme, "nowhere", lambda found: _reason(found) == "InvalidImageName")
    acme.delete(f"{PODS}/nowhere")
    gone(acme, "nowhere")


def _reason(found: Object) -> str:
    statuses = (found.get("status") or {}).get("containerStatuses") or [{}]
    return str(((statuses[0].get("state") or {}).get("waiting") or {}).get("reason") or "")

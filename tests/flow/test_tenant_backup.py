"""Backup, restore and clone of one tenant: what comes back works, and a file can do no more than its restorer."""

from __future__ import annotations

import hashlib
import io
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any

import orjson
import pytest
from typer.testing import CliRunner

from alcove.api.objects import Object
from alcove.cli.connection import CliConnection, ConnectionFailed, KubeconfigUser, load
from alcove.cli.errors import CliError
from alcove.cli.tenant_backup import places, plan
from alcove.cli.tenant_backup.claims import Claim
from alcove.cli.tenant_backup.existing import Existing
from alcove.cli.tenant_backup.restoring import Restorer, verify
from alcove.cli.tenant_backup.saving import save
from alcove.processes.main import app
from alcove.testing.cluster import condition, tenant_is_ready
from alcove.testing.controlplane import LocalControllers
from alcove.testing.server import Caller, LocalServer, wait_until

CORE = "/api/v1/namespaces/default"
APPS, BATCH = "/apis/apps/v1/namespaces/default", "/apis/batch/v1/namespaces/default"
WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"
PODS, MAPS, SECRETS = f"{CORE}/pods", f"{CORE}/configmaps", f"{CORE}/secrets"
TEMPLATE: Object = {
    "metadata": {"labels": {"app": "web"}},
    "spec": {"containers": [{"name": "c", "image": "i"}]},
}


@pytest.fixture(scope="module")
def cluster(hollow_cluster: LocalServer) -> LocalServer:
    return hollow_cluster


def make_tenant(cluster: LocalServer, name: str) -> Caller:
    assert cluster.system.post("/api/v1/tenants", {"metadata": {"name": name}}).status == 201
    wait_until(lambda: tenant_is_ready(cluster, name), 60)
    return cluster.as_tenant(name)


def tenant(kubeconfig: Path, *words: str | Path, fails: str = "") -> str:
    """What `alcove tenant …` says; with `fails`, it must fail and say that."""
    done = CliRunner().invoke(app, ["tenant", *map(str, words), "--kubeconfig", str(kubeconfig)])
    assert (done.exit_code == 0) is not bool(fails) and fails in done.output, done.output
    return done.output


def make(caller: Caller, path: str, name: str, **body: Any) -> Object:
    metadata = {"name": name, **body.pop("metadata", {})}
    answer = caller.post(path, {"metadata": metadata, **body})
    assert answer.status == 201, answer.body
    made: Object = answer.json
    return made


def fill(caller: Caller) -> None:
    """Objects of many kinds, with owners, and pods that run."""
    settings = make(caller, MAPS, "settings", data={"a": "1"})
    make(caller, SECRETS, "password", stringData={"p": "secret"})
    make(caller, f"{CORE}/services", "web", spec={"selector": {"app": "web"}, "ports": [{"port": 80}]})
    selector = {"matchLabels": {"app": "web"}}
    make(
        caller, f"{APPS}/deployments", "web", spec={"replicas": 2, "selector": selector, "template": TEMPLATE}
    )
    job = {**TEMPLATE, "spec": {**TEMPLATE["spec"], "restartPolicy": "Never"}}
    make(caller, f"{BATCH}/jobs", "batch", spec={"template": job})
    make(caller, PODS, "alone", spec=TEMPLATE["spec"])
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "widgets", "kind": "Widget"}
    crd = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    make(caller, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "widgets.example.com", spec=crd)
    wait_until(lambda: caller.get(WIDGETS).status == 200)
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "settings", "uid": settings["metadata"]["uid"]}
    kind = {"apiVersion": "example.com/v1", "kind": "Widget"}
    make(caller, WIDGETS, "cog", metadata={"ownerReferences": [owner]}, status={"teeth": 7}, **kind)
    wait_until(lambda: len(ready(caller)) == 4, 60)


def ready(caller: Caller) -> list[str]:
    pods = caller.get(PODS).json["items"]
    return [pod["metadata"]["name"] for pod in pods if condition(pod, "Ready") == "True"]


def check(caller: Caller) -> None:
    """All that `fill` made is there and works."""
    wait_until(lambda: len(ready(caller)) == 4, 60)
    settings = caller.get(f"{MAPS}/settings").json
    assert settings["data"] == {"a": "1"}
    assert caller.get(f"{SECRETS}/password").json["data"] == {"p": "c2VjcmV0"}
    deployment = caller.get(f"{APPS}/deployments/web").json
    sets = caller.get(f"{APPS}/replicasets").json["items"]
    assert [each["metadata"]["ownerReferences"][0]["uid"] for each in sets] == [deployment["metadata"]["uid"]]
    assert caller.get(f"{CORE}/services/web").json["spec"]["clusterIP"]
    cog = caller.get(f"{WIDGETS}/cog").json
    assert cog["metadata"]["ownerReferences"][0]["uid"] == settings["metadata"]["uid"]
    assert cog["status"] == {"teeth": 7}
    assert "alone" in ready(caller)
    wait_until(lambda: caller.get(f"{BATCH}/jobs/batch").json["status"].get("ready") == 1, 60)


def test_a_deleted_tenant_comes_back_and_its_workloads_run(cluster: LocalServer, tmp_path: Path) -> None:
    ring0, file, phrase = cluster.admin_kubeconfig, tmp_path / "acme.backup", tmp_path / "phrase"
    phrase.write_text("correct horse\n")
    acme = make_tenant(cluster, "acme")
    fill(acme)
    old = acme.get(f"{MAPS}/settings").json["metadata"]["uid"]
    message = tenant(ring0, "backup", "acme", "-o", file, "--passphrase-file", phrase)
    assert "objects of tenant acme at revision" in message
    assert file.stat().st_mode & 0o077 == 0
    assert b"settings" not in file.read_bytes()
    tenant(ring0, "backup", "acme", "-o", file, fails="already exists")
    acme.close()
    tenant(ring0, "delete", "acme")
    # Nothing is changed before all of it is verified.
    wrong = tmp_path / "wrong"
    wrong.write_text("correct house\n")
    tenant(ring0, "restore", file, fails="--passphrase-file")
    tenant(ring0, "restore", file, "--passphrase-file", wrong, fails="cannot be decrypted")
    assert cluster.system.get("/api/v1/tenants/acme").status == 404
    message = tenant(ring0, "restore", file, "--passphrase-file", phrase)
    assert "restored tenant acme from revision" in message
    tenant(ring0, "kubeconfig", "acme", "-o", tmp_path / "kubeconfig")
    acme = Caller(tmp_path / "kubeconfig")
    check(acme)
    assert acme.get(f"{MAPS}/settings").json["metadata"]["uid"] != old
    acme.close()


def test_a_clone_is_another_tenant_with_the_same_objects(cluster: LocalServer) -> None:
    ring0 = cluster.admin_kubeconfig
    first = make_tenant(cluster, "first")
    fill(first)
    tenant(ring0, "clone", "first", "second")
    second = cluster.as_tenant("second")
    check(second)
    assert second.delete(f"{MAPS}/settings").status == 200
    assert first.get(f"{MAPS}/settings").status == 200
    tenant(ring0, "clone", "first", "second", fails="already exists")
    tenant(ring0, "clone", "nobody", "third", fails="not found")
    assert cluster.system.get("/api/v1/tenants/third").status == 404


def test_a_backup_is_of_one_revision_while_the_tenant_writes(cluster: LocalServer, tmp_path: Path) -> None:
    """Each number is written to a config map, then to a secret: at any revision there is at most one more config map."""
    caller, file, done = make_tenant(cluster, "busy"), tmp_path / "busy.backup", threading.Event()
    written = threading.Event()

    def write() -> None:
        for number in range(100_000):
            for path in (MAPS, SECRETS):
                assert caller.post(path, {"metadata": {"name": f"n-{number}"}}).status == 201
            if number == 200:
                written.set()
            if done.is_set():
                return

    writer = threading.Thread(target=write)
    writer.start()
    try:
        assert written.wait(60)
        tenant(cluster.admin_kubeconfig, "backup", "busy", "-o", file)
    finally:
        done.set()
        writer.join()
    lines = file.read_bytes().splitlines()
    names = [orjson.loads(line[2:])["metadata"]["name"] for line in lines if line.startswith(b"O")]
    numbers = sorted(int(name[2:]) for name in names if name.startswith("n-"))
    pairs = [numbers.count(number) for number in range(numbers[-1] + 1)]
    assert len(numbers) > 400 and set(pairs[:-1]) == {2} and pairs[-1] in (1, 2)


def test_existing_objects_are_refused_kept_or_overwritten(cluster: LocalServer, tmp_path: Path) -> None:
    ring0, file = cluster.admin_kubeconfig, tmp_path / "backup"
    caller = make_tenant(cluster, "again")
    make(caller, MAPS, "changed", data={"v": "saved"})
    make(caller, MAPS, "lost", data={"v": "saved"})
    address = make(caller, f"{CORE}/services", "s", spec={"ports": [{"port": 1}]})["spec"]["clusterIP"]
    tenant(ring0, "backup", "again", "-o", file)
    caller.patch(f"{MAPS}/changed", {"data": {"v": "newer"}})
    caller.delete(f"{MAPS}/lost")
    tenant(ring0, "restore", file, fails="1 configmaps")
    assert caller.get(f"{MAPS}/lost").status == 404, "changed before it was verified"
    tenant(ring0, "restore", file, "--existing", "keep")
    assert caller.get(f"{MAPS}/lost").status == 200
    assert caller.get(f"{MAPS}/changed").json["data"] == {"v": "newer"}
    tenant(ring0, "restore", file, "--existing", "overwrite")
    assert caller.get(f"{MAPS}/changed").json["data"] == {"v": "saved"}
    assert caller.get(f"{CORE}/services/s").json["spec"]["clusterIP"] == address


def test_a_tenants_admin_saves_and_restores_its_own_tenant_only(cluster: LocalServer, tmp_path: Path) -> None:
    own, other = make_tenant(cluster, "own"), make_tenant(cluster, "other")
    make(own, MAPS, "mine")
    file = tmp_path / "own.backup"
    tenant(own.kubeconfig, "backup", "own", "-o", file)
    own.delete(f"{MAPS}/mine")
    tenant(own.kubeconfig, "restore", file, "--existing", "keep")
    assert own.get(f"{MAPS}/mine").status == 200
    tenant(own.kubeconfig, "backup", "other", "-o", tmp_path / "stolen", fails="forbidden")
    assert not (tmp_path / "stolen").exists()
    tenant(own.kubeconfig, "restore", file, "--tenant", "other", fails="forbidden")
    tenant(own.kubeconfig, "clone", "own", "more", fails="forbidden")
    assert other.get(f"{MAPS}/mine").status == 404


class FailingConnection(CliConnection):
    """A connection that is lost after some requests, like that of a process that is killed."""

    def __init__(self, user: KubeconfigUser, left: Iterator[int]) -> None:
        super().__init__(user)
        self._left = left

    def request(
        self, method: str, path: str, body: Object | None = None, headers: dict[str, str] | None = None
    ) -> Any:
        if next(self._left, None) is None:
            raise ConnectionFailed("killed")
        return super().request(method, path, body, headers)


def test_a_restore_that_ends_at_any_request_is_continued(cluster: LocalServer, tmp_path: Path) -> None:
    caller, user = make_tenant(cluster, "broken"), load(cluster.admin_kubeconfig)
    owner = make(caller, MAPS, "owner")
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
    # In the order of the archive the owner comes last: it is waited for.
    make(caller, MAPS, "dependent", metadata={"ownerReferences": [reference]})
    make(caller, SECRETS, "other", metadata={"ownerReferences": [reference]})
    file = tmp_path / "backup"
    tenant(cluster.admin_kubeconfig, "backup", "broken", "-o", file)
    archive = partial(places.reading, file, b"")
    verified = verify(archive, CliConnection(user), "broken", Existing.KEEP)
    ended = 0
    while True:
        for path in (f"{MAPS}/owner", f"{MAPS}/dependent", f"{SECRETS}/other"):
            caller.delete(path)
            wait_until(lambda path=path: caller.get(path).status == 404, 60)
        connect = partial(FailingConnection, user, iter(range(ended)))
        try:
            Restorer(connect, "broken", Existing.KEEP, as_admin=True).restore(archive, verified)
            break
        except ConnectionFailed:
            ended += 1
        report = Restorer(lambda: CliConnection(user), "broken", Existing.KEEP, as_admin=True).restore(
            archive, verified
        )
        assert report.failures == []
        uid = caller.get(f"{MAPS}/owner").json["metadata"]["uid"]
        for path in (f"{MAPS}/dependent", f"{SECRETS}/other"):
            assert caller.get(path).json["metadata"]["ownerReferences"][0]["uid"] == uid
    assert ended > 10, "it was ended at every request"


CLAIMS = f"{CORE}/persistentvolumeclaims"


class Volumes:
    """The files of volumes, in place of the pods that would read and write them on real nodes."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.fails = False

    @contextmanager
    def writing(self, claim: Claim) -> Iterator[IO[bytes]]:
        out = io.BytesIO()
        yield out
        if self.fails:
            raise CliError("the pod was killed")
        self.files[claim.name] = out.getvalue()


def test_files_are_restored_before_what_uses_them_and_again_after_an_interruption(
    cluster: LocalServer, tmp_path: Path
) -> None:
    caller = make_tenant(cluster, "filed")
    amount = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    for name in ("bound", "owned", "waits"):
        make(caller, CLAIMS, name, spec=amount)
    volumes_of_pod = [
        {"name": name, "persistentVolumeClaim": {"claimName": name}} for name in ("bound", "owned")
    ]
    make(caller, PODS, "user", spec={**TEMPLATE["spec"], "volumes": volumes_of_pod})
    wait_until(lambda: ready(caller) == ["user"], 60)
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": ""}
    selector = {"matchLabels": {"app": "web"}}
    made = make(
        caller,
        f"{APPS}/statefulsets",
        "db",
        spec={"replicas": 0, "serviceName": "db", "selector": selector, "template": TEMPLATE},
    )
    owner["uid"] = made["metadata"]["uid"]
    assert caller.patch(f"{CLAIMS}/owned", {"metadata": {"ownerReferences": [owner]}}).status == 200
    user, file = load(cluster.admin_kubeconfig), tmp_path / "filed"
    with file.open("wb") as out:
        saved = save(CliConnection(user), "filed", out, 0, lambda claim: iter([claim.name.encode(), b"!"]))
    assert saved.volumes == 2, "one has no volume yet"

    target, volumes = make_tenant(cluster, "refiled"), Volumes()
    archive = partial(places.reading, file, b"")
    verified = verify(archive, CliConnection(user), "refiled", Existing.KEEP)

    def restore() -> None:
        Restorer(
            lambda: CliConnection(user), "refiled", Existing.KEEP, as_admin=True, write_volume=volumes.writing
        ).restore(archive, verified)

    volumes.fails = True
    with pytest.raises(CliError, match="killed"):
        restore()
    assert target.get(f"{PODS}/user").status == 404, "nobody may use a volume without its files"
    volumes.fails = False
    restore()
    assert volumes.files == {"bound": b"bound!", "owned": b"owned!"}
    assert target.get(f"{PODS}/user").status == 200 and target.get(f"{CLAIMS}/waits").status == 200
    assert plan.UNFILLED_ANNOTATION not in target.get(f"{CLAIMS}/bound").json["metadata"]["annotations"]
    volumes.files = {}
    restore()
    assert volumes.files == {}, "what is there is kept"


@pytest.mark.slow
def test_a_tenant_travels_to_another_cluster(cluster: LocalServer, tmp_path: Path) -> None:
    caller = make_tenant(cluster, "traveller")
    make(caller, MAPS, "luggage", data={"a": "1"})
    selector = {"matchLabels": {"app": "web"}}
    make(
        caller, f"{APPS}/deployments", "web", spec={"replicas": 2, "selector": selector, "template": TEMPLATE}
    )
    tenant(cluster.admin_kubeconfig, "backup", "traveller", "-o", tmp_path / "backup")
    with LocalServer(tmp_path / "server") as server, LocalControllers(server, tmp_path):
        tenant(server.admin_kubeconfig, "restore", tmp_path / "backup")
        arrived = server.as_tenant("traveller")
        assert arrived.get(f"{MAPS}/luggage").json["data"] == {"a": "1"}
        wait_until(lambda: len(arrived.get(PODS).json["items"]) == 2, 60)


# Forged and damaged files


def archive(tenant: str, resource: Object, *objects: Object) -> bytes:
    """An archive with a right checksum, whatever is in it."""
    header = {"format": "alcove-tenant-backup", "version": 1, "tenant": tenant, "revision": "1", "time": ""}
    body = b"H %b\nR %b\n" % (orjson.dumps(header), orjson.dumps(resource))
    body += b"".join(b"O %b\n" % orjson.dumps(each) for each in objects)
    end = {"objects": len(objects), "sha256": hashlib.sha256(body).hexdigest()}
    return body + b"E %b\n" % orjson.dumps(end)


def of(resource: str, kind: str, group: str = "", namespaced: bool = True) -> Object:
    return {"group": group, "version": "v1", "resource": resource, "kind": kind, "namespaced": namespaced}


def named(name: str, tenant: str = "forged", namespace: str = "default", **more: object) -> Object:
    metadata = {"name": name, "tenant": tenant, **({"namespace": namespace} if namespace else {})}
    return {"metadata": metadata, **more}


POD, MAP = of("pods", "Pod"), of("configmaps", "ConfigMap")
GOOD = archive("forged", MAP, named("m"))
HOST = {"volumes": [{"name": "v", "hostPath": {"path": "/"}}], "containers": [{"name": "c", "image": "i"}]}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not a backup"),
        (b"hello\n", "damaged"),
        (GOOD[:-30], "cut off"),
        (GOOD[: GOOD.index(b"E {")], "its end is missing"),
        (GOOD + b"O {}\n", "follows its end"),
        (GOOD.replace(b'"m"', b'"n"'), "checksum"),
        (GOOD.replace(b'"version":1', b'"version":3'), "format 3"),
        (archive("Not A Name", MAP), "not a backup"),
        (archive("forged", MAP, named("m", tenant="victim")), "another tenant"),
        (archive("forged", MAP, named("m", namespace="default/../../../tenants/victim")), "valid namespace"),
        (archive("forged", MAP, named("../secrets/m")), "valid name"),
        (archive("forged", MAP, named("m", namespace="")), "valid namespace"),
        (archive("forged", MAP, {"metadata": []}), "no metadata"),
        (archive("forged", POD, named("p", spec=[])), "malformed"),
        (archive("forged", of("gadgets", "Gadget", "example.org"), named("g")), "does not serve"),
        (archive("system", MAP, named("m", tenant="system")), "system tenant"),
    ],
)
def test_a_damaged_or_forged_file_changes_nothing(
    cluster: LocalServer, tmp_path: Path, content: bytes, message: str
) -> None:
    file = tmp_path / "forged"
    file.write_bytes(content)
    tenant(cluster.admin_kubeconfig, "restore", file, fails=message)
    assert cluster.system.get("/api/v1/tenants/forged").status == 404


@pytest.mark.parametrize(
    ("resource", "obj", "path"),
    [
        (POD, named("p", spec={**HOST}), "/api/v1/tenants/{}/namespaces/default/pods/p"),
        (
            of("persistentvolumes", "PersistentVolume", namespaced=False),
            named("v", namespace="", spec={"capacity": {"storage": "1Gi"}, "hostPath": {"path": "/"}}),
            "/api/v1/tenants/{}/persistentvolumes/v",
        ),
        (of("nodes", "Node", namespaced=False), named("evil", namespace=""), "/api/v1/nodes/evil"),
        (of("tenants", "Tenant", namespaced=False), named("evil", namespace=""), "/api/v1/tenants/evil"),
        (
            of("vpcs", "Vpc", "mizar.com", namespaced=False),
            named("evil", namespace="", spec={"ip": "10.0.0.0", "prefix": "8"}),
            "/apis/mizar.com/v1/vpcs/evil",
        ),
        (
            of("daemonsets", "DaemonSet", "apps"),
            named("d", spec={"selector": {"matchLabels": {"app": "web"}}, "template": TEMPLATE}),
            "/apis/apps/v1/tenants/{}/namespaces/default/daemonsets/d",
        ),
    ],
)
def test_a_forged_file_writes_nothing_that_its_owner_could_not(
    cluster: LocalServer, tmp_path: Path, resource: Object, obj: Object, path: str
) -> None:
    """Restored by ring0, to a tenant that exists: admission sees the tenant's administrator."""
    if cluster.system.get("/api/v1/tenants/plain").status == 404:
        make_tenant(cluster, "plain")
    obj["metadata"]["tenant"] = "plain"
    file = tmp_path / "forged"
    file.write_bytes(archive("plain", resource, obj))
    tenant(cluster.admin_kubeconfig, "restore", file, fails="plain" if "{}" in path else "does not serve")
    assert cluster.system.get(path.format("plain")).status == 404


@pytest.mark.parametrize("words", [("backup", "nobody"), ("backup", "Bad_Name")])
def test_a_backup_of_no_tenant_leaves_no_file(
    cluster: LocalServer, tmp_path: Path, words: tuple[str, ...]
) -> None:
    tenant(cluster.admin_kubeconfig, *words, "-o", tmp_path / "file", fails="not found")
    assert list(tmp_path.iterdir()) == []

"""Dedicated planes without nodes: what ring0 makes for them, what comes back, and who joins by a Tenant's status."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from alcove.api import usage
from alcove.api.objects import Object
from alcove.api.usage import UsageAmounts
from alcove.cli.kubeconfig import KubeconfigCertificate, render
from alcove.client.kubeconfig import load
from alcove.client.kubeconfig import parse as load_kubeconfig
from alcove.controllers.usage import sums
from alcove.testing.cluster import condition
from alcove.testing.controlplane import LocalControllers
from alcove.testing.dedicated import DedicatedServer
from alcove.testing.server import Caller, LocalServer, wait_until

SECONDS_MAX = 60.0
KUBE_SYSTEM = "/api/v1/namespaces/kube-system"
SET = "/apis/apps/v1/namespaces/kube-system/statefulsets/plane-big"
KEYS = f"{KUBE_SYSTEM}/secrets/plane-big"
CLAIM = f"{KUBE_SYSTEM}/persistentvolumeclaims/plane-big"
POD = f"{KUBE_SYSTEM}/pods/plane-big-0"
TENANT = "/api/v1/tenants/big"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServer]:
    directory = tmp_path_factory.mktemp("home")
    with LocalServer(directory / "server") as server, LocalControllers(server, directory):
        tenant = {"metadata": {"name": "big"}, "spec": {"controlPlane": {"mode": "Dedicated"}}}
        assert server.system.post("/api/v1/tenants", tenant).status == 201
        yield server


def found(caller: Caller, path: str) -> Object | None:
    answer = caller.get(path)
    return answer.json if answer.status == 200 else None


def check_the_way_through_home(home: LocalServer, secret: str) -> None:
    """`/tenants/T` at home leads to the plane: for ring0, and for the tenant's users with the plane's certificates."""
    stored = load_kubeconfig(base64.b64decode(home.system.get(secret).json["data"]["kubeconfig"]))
    credential = KubeconfigCertificate(stored.certificate_pem, stored.key_pem)
    at_home = load(home.admin_kubeconfig)
    path = home.directory / "big-admin.kubeconfig"
    path.write_text(render(at_home.server, at_home.ca_pem, "big", "admin", credential))
    admin = Caller(path)
    wait_until(
        lambda: admin.get("/api/v1/namespaces/default/serviceaccounts/default").status == 200, SECONDS_MAX
    )
    body = {"metadata": {"name": "big"}, "data": {"long": "x" * 300_000}}
    made = admin.post("/tenants/big/api/v1/namespaces/default/configmaps", body)
    assert made.status == 201 and made.json["metadata"]["tenant"] == "big", made.body
    assert "big" in admin.kubectl("get", "configmaps")
    for form in (
        "/api/v1/tenants/big/namespaces/default/configmaps/big",
        "/tenants/big/api/v1/namespaces/default/configmaps/big",
    ):
        assert home.system.get(form).json["data"] == body["data"]
    watch = "/api/v1/namespaces/default/configmaps?watch=1&timeoutSeconds=1"
    assert '"name":"big"' in admin.get(watch).body.decode()
    assert admin.get("/api/v1/tenants/acme/namespaces").status == 403
    check_usage(home, admin)
    assert admin.get("/api/v1/tenants").status == 403


def check_usage(home: LocalServer, admin: Caller) -> None:
    """The records are at home; the plane decides who may see them."""
    hour = usage.hour_of(time.time())
    record = sums.with_hours(sums.new_record("big", usage.day_of(hour)), {hour: UsageAmounts(pod_seconds=7)})
    assert home.system.post("/apis/usage.alcove.io/v1alpha1/usagerecords", record).status == 201
    path = "/apis/sight.alcove.io/v1alpha1/tenants/{}/tenantusages?step=total"
    [found] = admin.get(path.format("big")).json["items"]
    assert found["amounts"]["podSeconds"] == 7
    assert admin.get(path.format("all")).status == 403
    refused = home.system.get(path.format("big"), impersonate_user="nobody", impersonate_tenant="big")
    assert refused.status == 403 and 'User "nobody"' in refused.json["message"], refused.body


def reason_of(tenant: Object) -> str:
    found = (each for each in tenant["status"]["conditions"] if each["type"] == "APIServerReady")
    return next((each["reason"] for each in found), "")


def check_sleep(home: LocalServer, plane: DedicatedServer) -> None:
    """Its API server is stopped, starts for the first request, which waits for it, and is asleep otherwise. This test is
    the node that runs it."""
    system, admin = home.system, Caller(home.directory / "big-admin.kubeconfig")
    has_port(system, plane)
    assert system.patch(TENANT, {"spec": {"sleep": {"asleep": True}}}).status == 200
    wait_until(lambda: system.get(SET).json["spec"]["replicas"] == 0, SECONDS_MAX)
    assert reason_of(system.get(TENANT).json) == "Asleep"
    wait_until(lambda: system.get(POD).status == 404, SECONDS_MAX)
    plane.stop()
    with ThreadPoolExecutor() as threads:
        answer = threads.submit(admin.get, "/api/v1/namespaces")
        wait_until(lambda: reason_of(system.get(TENANT).json) == "Waking", SECONDS_MAX)
        assert not answer.done(), answer.result()
        plane.start()
        wait_until(lambda: run_by_hand(system), SECONDS_MAX)
        assert answer.result().status == 200
    tenant = system.get(TENANT).json
    assert condition(tenant, "Asleep") == "True" and tenant["status"]["controlPlane"]["lastRequestTime"]
    assert system.patch(TENANT, {"spec": {"sleep": None}}).status == 200
    wait_until(lambda: condition(system.get(TENANT).json, "Asleep") == "False", SECONDS_MAX)


def has_port(system: Caller, plane: DedicatedServer) -> None:
    """Gives the plane's pod the port that its server has here."""
    path = "/spec/template/spec/containers/0/ports/0"
    port = plane.address[1]
    change = [
        {"op": "replace", "path": f"{path}/{name}", "value": port} for name in ("containerPort", "hostPort")
    ]
    assert system.patch(SET, change, "json-patch+json").status == 200
    wait_until(lambda: run_by_hand(system), SECONDS_MAX)


def run_by_hand(system: Caller) -> bool:
    """Says of the plane's pod that it is ready, and returns whether the controllers know. The StatefulSet may just be
    replacing it."""
    ready = {"type": "Ready", "status": "True"}
    status = {"phase": "Running", "hostIP": "127.0.0.1", "conditions": [ready]}
    system.patch(f"{POD}/status", {"status": status})
    return reason_of(system.get(TENANT).json) == "Ready"


def check_revocation(home: LocalServer, secret: str) -> None:
    """What ring0's Tenant says holds on the plane."""
    path = home.directory / "revoked.kubeconfig"
    path.write_bytes(base64.b64decode(home.system.get(secret).json["data"]["kubeconfig"]))
    admin = Caller(path)
    assert admin.get("/api/v1/namespaces").status == 200
    revoked = [{"user": "admin", "issuedBefore": "2999-01-01T00:00:00Z"}]
    assert home.system.patch(TENANT, {"spec": {"revokedCertificates": revoked}}).status == 200
    wait_until(lambda: admin.get("/api/v1/namespaces").status == 401, SECONDS_MAX)


def test_what_is_deleted_or_changed_comes_back(home: LocalServer) -> None:
    system = home.system
    made = {
        path: wait_until(lambda path=path: found(system, path), SECONDS_MAX) for path in (KEYS, CLAIM, SET)
    }
    assert set(made[KEYS]["data"]) == {"ca.crt", "ca.key", "sa.key", "ring0-ca.crt", "node-ca.crt"}
    port = made[SET]["spec"]["template"]["spec"]["containers"][0]["ports"][0]["containerPort"]
    # Another port would be another address: it stays, whatever happens to the object that has it.
    changed = {"spec": {"replicas": 3, "template": {"spec": {"hostNetwork": False}}}}
    assert system.patch(SET, changed).status == 200

    def repaired() -> bool:
        spec = system.get(SET).json["spec"]
        return bool(spec["replicas"] == 1 and spec["template"]["spec"].get("hostNetwork"))

    wait_until(repaired, SECONDS_MAX)
    assert system.delete(SET).status == 200

    def is_back() -> bool:
        again = found(system, SET)
        return again is not None and again["metadata"]["uid"] != made[SET]["metadata"]["uid"]

    wait_until(is_back, SECONDS_MAX)
    container = system.get(SET).json["spec"]["template"]["spec"]["containers"][0]
    assert container["ports"][0]["containerPort"] == port
    before = container, system.get(SET).json["spec"]["template"]["metadata"]["annotations"]
    assert system.delete(KEYS).status == 200
    # Other keys are another authority: the pod has to be replaced.
    wait_until(
        lambda: system.get(SET).json["spec"]["template"]["metadata"]["annotations"] != before[1], SECONDS_MAX
    )
    assert found(system, KEYS)
    conditions = {each["type"]: each["status"] for each in system.get(TENANT).json["status"]["conditions"]}
    assert conditions["CertificatesReady"] == "True" and conditions["APIServerReady"] == "False"


def test_the_key_of_a_store_is_not_made_twice(home: LocalServer) -> None:
    system, path = home.system, f"{KUBE_SYSTEM}/secrets/planekey-big"

    def is_marked() -> bool:
        return "alcove.io/plane-encrypted" in system.get(CLAIM).json["metadata"].get("annotations", {})

    wait_until(is_marked, SECONDS_MAX)
    secret = system.get(path).json
    changed = system.patch(path, {"data": {"encryption.yaml": ""}})
    assert changed.status == 422 and "immutable" in changed.json["message"], changed.body
    assert system.delete(path).status == 200

    def reason() -> str:
        found = system.get(TENANT).json["status"]["conditions"]
        return next(str(each["reason"]) for each in found if each["type"] == "StoreReady")

    wait_until(lambda: reason() == "EncryptionKeyMissing", SECONDS_MAX)
    assert system.get(path).status == 404
    copied = {name: secret["metadata"][name] for name in ("name", "labels", "ownerReferences")}
    again = {"metadata": copied, "data": secret["data"], "immutable": True}
    assert system.post(f"{KUBE_SYSTEM}/secrets", again).status == 201
    wait_until(lambda: reason() != "EncryptionKeyMissing", SECONDS_MAX)


def test_controllers_join_by_the_status_and_issue_kubeconfigs(home: LocalServer, tmp_path: Path) -> None:
    """The API server that the status names is started here by hand: there is no node to run it."""
    system = home.system
    keys = {name: base64.b64decode(data).decode() for name, data in system.get(KEYS).json["data"].items()}
    with DedicatedServer(tmp_path / "plane", home, "big", keys) as plane:
        authority = plane.authority.certificate_pem.decode()
        status = {"endpoint": plane.url, "controlPlane": {"certificateAuthority": authority}}
        assert system.patch(f"{TENANT}/status", {"status": status}).status == 200
        role = "/apis/rbac.authorization.k8s.io/v1/tenants/big/clusterrolebindings/admin-role-binding"
        wait_until(lambda: plane.system.get(role).status == 200, SECONDS_MAX)
        secret = f"{KUBE_SYSTEM}/secrets/plane-big.admin"
        wait_until(lambda: found(system, secret), SECONDS_MAX)
        check_the_way_through_home(home, secret)
        check_sleep(home, plane)
        check_revocation(home, secret)
        users = {"spec": {"controlPlane": {"users": [{"name": "dev", "groups": ["developers"]}]}}}
        assert system.patch(TENANT, users).status == 200
        wait_until(lambda: found(system, secret.replace("admin", "dev")), SECONDS_MAX)
        wait_until(lambda: system.get(secret).status == 404, SECONDS_MAX)
        # It is emptied on its plane; then everything that ring0 made for it goes.
        assert system.delete(TENANT).status == 200
        wait_until(lambda: system.get(TENANT).status == 404, SECONDS_MAX)
        assert plane.system.get("/api/v1/tenants/big").status == 404
    for path in (SET, KEYS, CLAIM, secret.replace("admin", "dev")):
        wait_until(lambda path=path: system.get(path).status == 404, SECONDS_MAX)

"""A volume of one tenant is never bound to another's claim, whatever the other writes; no tenant reaches a
node's files."""

import random
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from alcove.api.ids import SYSTEM
from alcove.apiserver.auth.certificates import CertificateAuthority
from alcove.apiserver.auth.subjects import Subject
from alcove.cli.connection import load
from alcove.cli.kubeconfig import KubeconfigCertificate, render
from alcove.controllers.volumes import ClaimBinder, LocalProvisioner, VolumeController
from alcove.testing.controllers import RunningControllers
from alcove.testing.server import Caller, LocalServer, wait_until

CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
VOLUMES = "/api/v1/persistentvolumes"
LABEL = "alcove.io/node"
SPEC: dict[str, Any] = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}


@pytest.fixture(scope="module")
def victim(server: LocalServer) -> Iterator[Caller]:
    """Has a local volume on node n-a, bound to its claim `data`."""
    caller = server.make_tenant("volume-victim")
    for name in ("n-a", "n-b"):
        server.system.post("/api/v1/nodes", {"metadata": {"name": name}})
    with RunningControllers(server.admin_kubeconfig, (ClaimBinder, VolumeController, LocalProvisioner)):
        assert provision(caller, "data", "n-a")
        yield caller


@pytest.fixture(scope="module")
def thief(server: LocalServer, victim: Caller) -> Caller:
    return server.make_tenant("volume-thief")


def provision(caller: Caller, name: str, node: str) -> dict[str, Any]:
    chosen = {"provisioner": "alcove.io/local", "volumeBindingMode": "WaitForFirstConsumer"}
    caller.post("/apis/storage.k8s.io/v1/storageclasses", {"metadata": {"name": "local"}, **chosen})
    annotations = {"volume.kubernetes.io/selected-node": node}
    spec = {**SPEC, "storageClassName": "local"}
    assert (
        caller.post(CLAIMS, {"metadata": {"name": name, "annotations": annotations}, "spec": spec}).status
        == 201
    )
    wait_until(lambda: caller.get(f"{CLAIMS}/{name}").json["status"]["phase"] == "Bound")
    return stored(caller)


def stored(caller: Caller) -> dict[str, Any]:
    return caller.get(VOLUMES).json["items"][0]  # type: ignore[no-any-return]


def node_caller(server: LocalServer, directory: Path, name: str) -> Caller:
    user = f"system:node:{name}"
    authority = CertificateAuthority.open(server.directory / "pki", time.time())
    made = authority.client(Subject(SYSTEM, user, ("system:nodes",)), time.time(), timedelta(hours=1))
    account = load(server.admin_kubeconfig)
    path = directory / f"{name}.kubeconfig"
    certificate = KubeconfigCertificate(made.certificate_pem, made.key_pem)
    path.write_text(render(account.server, account.ca_pem, "system", user, certificate))
    return Caller(path)


def test_a_claim_that_names_another_tenants_volume_gets_nothing(victim: Caller, thief: Caller) -> None:
    name = stored(victim)["metadata"]["name"]
    marks = {"pv.kubernetes.io/bind-completed": "yes", "pv.kubernetes.io/bound-by-controller": "yes"}
    for claim, annotations in (("named", {}), ("as-if-bound", marks)):
        body = {"metadata": {"name": claim, "annotations": annotations}, "spec": {**SPEC, "volumeName": name}}
        assert thief.post(CLAIMS, body).status == 201
    wait_until(lambda: thief.get(f"{CLAIMS}/as-if-bound").json["status"]["phase"] == "Lost")
    assert thief.get(f"{CLAIMS}/named").json["status"]["phase"] == "Pending"
    assert thief.get(f"{VOLUMES}/{name}").status == 404
    assert stored(victim)["spec"]["claimRef"]["name"] == "data"


def test_a_claim_of_the_same_name_and_class_gets_its_own(
    server: LocalServer, victim: Caller, thief: Caller
) -> None:
    """Same namespace, same name, same class, and the victim's uid in everything that can be written."""
    theirs = stored(victim)
    made = provision(thief, "data", "n-a")
    assert made["metadata"]["uid"] != theirs["metadata"]["uid"]
    assert made["metadata"]["tenant"] == "volume-thief"
    assert made["spec"]["local"]["path"] != theirs["spec"]["local"]["path"]
    patch = {"spec": {"claimRef": theirs["spec"]["claimRef"]}}
    assert thief.patch(f"{VOLUMES}/{made['metadata']['name']}", patch).status == 200
    wait_until(lambda: thief.get(f"{CLAIMS}/data").json["status"]["phase"] == "Lost")
    held = victim.get(f"{CLAIMS}/data").json
    assert held["status"]["phase"] == "Bound" and held["spec"]["volumeName"] == theirs["metadata"]["name"]
    assert stored(victim)["spec"]["claimRef"] == theirs["spec"]["claimRef"]


@pytest.mark.parametrize("seed", [1, 2])
def test_whatever_three_tenants_write_every_bound_pair_is_of_one_tenant(
    server: LocalServer, victim: Caller, seed: int
) -> None:
    """Same names everywhere, and references to each other's names and uids wherever one can be written."""
    chance = random.Random(seed)
    callers = [server.make_tenant(f"mixed-{seed}-{number}") for number in range(3)]
    uids = [""]
    for _ in range(60):
        caller, name = chance.choice(callers), f"x{chance.randrange(6)}"
        ref = {"namespace": "default", "name": f"x{chance.randrange(6)}"}
        ref |= {"uid": chosen} if (chosen := chance.choice(uids)) else {}
        match chance.randrange(6):
            case 0 | 1:
                spec = {**SPEC, "storageClassName": ""}
                spec |= {"volumeName": f"x{chance.randrange(6)}"} if chance.random() < 0.4 else {}
                made = caller.post(CLAIMS, {"metadata": {"name": name}, "spec": spec})
                uids += [made.json["metadata"]["uid"]] if made.status == 201 else []
            case 2 | 3:
                spec = {"accessModes": SPEC["accessModes"], "capacity": {"storage": "1Gi"}}
                spec |= {"nfs": {"server": "s", "path": "/"}}
                spec |= {"claimRef": ref} if chance.random() < 0.6 else {}
                caller.post(VOLUMES, {"metadata": {"name": name}, "spec": spec})
            case 4:
                caller.patch(f"{VOLUMES}/{name}", {"spec": {"claimRef": ref}})
            case 5:
                caller.patch(f"{CLAIMS}/{name}", {"metadata": {"finalizers": []}})
                caller.delete(f"{CLAIMS}/{name}")
    wait_until(lambda: any(pairs(caller) for caller in callers))
    for caller in callers:
        wait_until(lambda: are_of_one_tenant(caller))  # noqa: B023 - called at once


def are_of_one_tenant(caller: Caller) -> bool:
    """Whether each bound claim of the tenant has a volume of the same tenant to itself, and stays so for a moment."""
    bound = pairs(caller)
    holders = {
        each["metadata"]["name"]: (each["spec"].get("claimRef") or {}).get("uid")
        for each in caller.get(VOLUMES).json["items"]
    }
    if not all(holders.get(volume) == uid for _, uid, volume in bound):
        return False
    time.sleep(0.3)
    return pairs(caller) == bound


def pairs(caller: Caller) -> list[tuple[str, str, str]]:
    """(claim, its uid, its volume) of all that are bound."""
    return [
        (each["metadata"]["name"], each["metadata"]["uid"], each["spec"]["volumeName"])
        for each in caller.get(CLAIMS).json["items"]
        if each["status"]["phase"] == "Bound"
    ]


@pytest.mark.parametrize(
    "source",
    [
        {"hostPath": {"path": "/etc"}},
        {"local": {"path": "/"}},
        {"local": {"path": "/alcove/pvc-0"}},
        {"local": {"path": "VICTIM"}},
    ],
)
def test_tenants_make_no_volumes_of_a_nodes_files(
    victim: Caller, thief: Caller, source: dict[str, Any]
) -> None:
    theirs = stored(victim)
    if source.get("local", {}).get("path") == "VICTIM":
        source = {"local": theirs["spec"]["local"]}
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": "1Gi"},
        "nodeAffinity": theirs["spec"]["nodeAffinity"],
        **source,
    }
    answer = thief.post(VOLUMES, {"metadata": {"name": "mine"}, "spec": spec})
    assert answer.status == 403 and "can only be created by the system" in answer.json["message"]
    plain = {**spec, "nfs": {"server": "s", "path": "/"}}
    for kind in source:
        del plain[kind]
    assert thief.post(VOLUMES, {"metadata": {"name": "mine"}, "spec": plain}).status == 201
    try:
        swapped = {"spec": {**source, "nfs": None}}
        assert thief.patch(f"{VOLUMES}/mine", swapped).status in (403, 422)
    finally:
        thief.patch(f"{VOLUMES}/mine", {"metadata": {"finalizers": []}})
        thief.delete(f"{VOLUMES}/mine")


@pytest.mark.parametrize(
    "patch",
    [
        {"metadata": {"labels": {LABEL: "n-b"}}},
        {"metadata": {"labels": {LABEL: None}}},
        {"metadata": {"finalizers": []}},
        {"spec": {"capacity": {"storage": "900Gi"}}},
        {"spec": {"local": {"path": "/etc"}}},
        {"spec": {"nodeAffinity": None}},
    ],
)
def test_where_it_is_and_that_it_is_wiped_is_not_the_tenants_to_change(
    victim: Caller, patch: dict[str, Any]
) -> None:
    before = stored(victim)
    assert victim.patch(f"{VOLUMES}/{before['metadata']['name']}", patch).status in (403, 422)
    assert stored(victim)["spec"] == before["spec"]


def test_a_node_sees_its_own_volumes_and_says_only_that_they_are_wiped(
    server: LocalServer, victim: Caller, tmp_path: Path
) -> None:
    a, b = (node_caller(server, tmp_path, name) for name in ("n-a", "n-b"))
    volume = stored(victim)["metadata"]
    one = f"/api/v1/tenants/{volume['tenant']}/persistentvolumes/{volume['name']}"
    everywhere = "/api/v1/tenants/all/persistentvolumes"
    mine = a.get(f"{everywhere}?labelSelector={LABEL}%3Dn-a")
    assert mine.status == 200 and volume["name"] in {each["metadata"]["name"] for each in mine.json["items"]}
    assert a.get(f"{everywhere}?watch=1&timeoutSeconds=1&labelSelector={LABEL}%3D%3Dn-a").status == 200
    for query in (
        "",
        f"?labelSelector={LABEL}",
        f"?labelSelector={LABEL}%3Dn-b",
        f"?labelSelector={LABEL}!%3Dn-b",
    ):
        assert a.get(f"{everywhere}{query}").status == 403
    assert b.get(f"{everywhere}?labelSelector={LABEL}%3Dn-b").json["items"] == []
    assert a.get(one).status == 200 and b.get(one).status == 403
    wiped = {"metadata": {"finalizers": ["kubernetes.io/pv-protection"]}}
    assert a.patch(one, wiped).status == 403  # It is not deleted.
    assert b.patch(one, wiped).status == 403
    server.system.delete(one)
    others: list[dict[str, Any]] = [{"labels": {"x": "y"}}, {"finalizers": []}, {"annotations": None}]
    for more in others:
        assert a.patch(one, {"metadata": {**wiped["metadata"], **more}}).status == 403, more
    assert a.patch(one, {**wiped, "spec": {"persistentVolumeReclaimPolicy": "Retain"}}).status == 403
    assert a.delete(one).status == 403
    assert b.patch(one, wiped).status == 403
    assert a.patch(one, wiped).status == 200
    assert server.system.get(one).json["metadata"]["finalizers"] == ["kubernetes.io/pv-protection"]

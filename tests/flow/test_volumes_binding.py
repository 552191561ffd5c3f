"""Claims and volumes through a real server: binding, reclaiming, and what is in use stays."""

from collections.abc import Iterator
from typing import Any

import pytest

from alcove.controllers.volumes import (
    ClaimBinder,
    ClaimProtection,
    EphemeralClaims,
    LocalProvisioner,
    VolumeController,
    VolumeProtection,
)
from alcove.testing.controllers import RunningControllers
from alcove.testing.server import Caller, LocalServer, wait_until

CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
VOLUMES = "/api/v1/persistentvolumes"
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
PODS = "/api/v1/namespaces/default/pods"
ALL = (ClaimBinder, VolumeController, LocalProvisioner, ClaimProtection, VolumeProtection, EphemeralClaims)
LOCAL = {"provisioner": "alcove.io/local", "volumeBindingMode": "WaitForFirstConsumer"}


@pytest.fixture(scope="module", autouse=True)
def running(server: LocalServer) -> Iterator[None]:
    with RunningControllers(server.admin_kubeconfig, ALL):
        yield


def claim(caller: Caller, name: str, size: str = "1Gi", **spec: Any) -> dict[str, Any]:
    wanted = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}, **spec}
    answer = caller.post(CLAIMS, {"metadata": {"name": name}, "spec": wanted})
    assert answer.status == 201, answer.body
    return answer.json  # type: ignore[no-any-return]


def volume(caller: Caller, name: str, size: str = "1Gi", **spec: Any) -> None:
    wanted = {
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": size},
        "nfs": {"server": "files", "path": f"/{name}"},
        **spec,
    }
    answer = caller.post(VOLUMES, {"metadata": {"name": name}, "spec": wanted})
    assert answer.status == 201, answer.body


def phase(caller: Caller, path: str) -> str:
    answer = caller.get(path)
    return answer.json["status"]["phase"] if answer.status == 200 else "gone"


def reasons(caller: Caller, name: str) -> set[str]:
    query = f"fieldSelector=involvedObject.name={name}"
    return {each["reason"] for each in caller.get(f"/api/v1/namespaces/default/events?{query}").json["items"]}


def select_node(caller: Caller, name: str, node: str) -> None:
    """What the scheduler does."""
    patch = {"metadata": {"annotations": {"volume.kubernetes.io/selected-node": node}}}
    assert caller.patch(f"{CLAIMS}/{name}", patch).status == 200


def use(caller: Caller, name: str, claim_name: str, node: str = "n") -> None:
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": claim_name}}]
    spec = {"containers": [{"name": "c", "image": "i"}], "volumes": volumes, "nodeName": node}
    assert caller.post(PODS, {"metadata": {"name": name}, "spec": spec}).status == 201


def make_local(server: LocalServer, tenant: Caller, claim_name: str, node: str, **more: Any) -> str:
    """A bound local volume; its name."""
    server.system.post("/api/v1/nodes", {"metadata": {"name": node}})
    if tenant.get(f"{CLASSES}/local").status == 404:
        assert tenant.post(CLASSES, {"metadata": {"name": "local"}, **LOCAL, **more}).status == 201
    claim(tenant, claim_name, storageClassName="local")
    select_node(tenant, claim_name, node)
    wait_until(lambda: phase(tenant, f"{CLAIMS}/{claim_name}") == "Bound")
    return str(tenant.get(f"{CLAIMS}/{claim_name}").json["spec"]["volumeName"])


def test_the_smallest_volume_is_bound_and_retained(tenant: Caller) -> None:
    for name, size in (("large", "5Gi"), ("small", "2Gi"), ("tiny", "1Mi")):
        volume(tenant, name, size)
    wait_until(lambda: phase(tenant, f"{VOLUMES}/small") == "Available")
    assert tenant.get(f"{VOLUMES}/small").json["status"]["lastPhaseTransitionTime"]
    uid = claim(tenant, "c")["metadata"]["uid"]
    wait_until(lambda: phase(tenant, f"{CLAIMS}/c") == "Bound")
    bound = tenant.get(f"{CLAIMS}/c").json
    assert bound["spec"]["volumeName"] == "small" and bound["status"]["capacity"] == {"storage": "2Gi"}
    wait_until(lambda: phase(tenant, f"{VOLUMES}/small") == "Bound")
    assert tenant.get(f"{VOLUMES}/small").json["spec"]["claimRef"]["uid"] == uid
    tenant.delete(f"{CLAIMS}/c")
    wait_until(lambda: phase(tenant, f"{VOLUMES}/small") == "Released")
    claim(tenant, "c")
    wait_until(lambda: phase(tenant, f"{CLAIMS}/c") == "Bound")
    assert tenant.get(f"{CLAIMS}/c").json["spec"]["volumeName"] == "large"


def test_two_claims_never_share_a_volume(tenant: Caller) -> None:
    volume(tenant, "one")
    for number in range(8):
        claim(tenant, f"c{number}")
    wait_until(lambda: phase(tenant, f"{VOLUMES}/one") == "Bound")
    bound = wait_until(
        lambda: [number for number in range(8) if phase(tenant, f"{CLAIMS}/c{number}") == "Bound"]
    )
    assert len(bound) == 1
    loser = next(number for number in range(8) if number not in bound)
    wait_until(lambda: "FailedBinding" in reasons(tenant, f"c{loser}"))
    volume(tenant, "two")
    wait_until(lambda: phase(tenant, f"{VOLUMES}/two") == "Bound")


def test_a_volume_made_for_a_claim_waits_for_it(tenant: Caller) -> None:
    volume(tenant, "mine", "9Gi", claimRef={"namespace": "default", "name": "wanted"})
    wait_until(lambda: phase(tenant, f"{VOLUMES}/mine") == "Available")
    claim(tenant, "other")
    claim(tenant, "wanted")
    wait_until(lambda: phase(tenant, f"{CLAIMS}/wanted") == "Bound")
    assert phase(tenant, f"{CLAIMS}/other") == "Pending"
    claim(tenant, "greedy", volumeName="mine")
    wait_until(lambda: "FailedBinding" in reasons(tenant, "greedy"))


def test_a_claim_whose_volume_goes_is_lost(tenant: Caller) -> None:
    volume(tenant, "v")
    claim(tenant, "c")
    wait_until(lambda: phase(tenant, f"{VOLUMES}/v") == "Bound")
    tenant.delete(f"{VOLUMES}/v")
    assert phase(tenant, f"{VOLUMES}/v") == "Bound"  # It is in use.
    tenant.patch(f"{VOLUMES}/v", {"metadata": {"finalizers": []}})
    wait_until(lambda: phase(tenant, f"{CLAIMS}/c") == "Lost")
    wait_until(lambda: "ClaimLost" in reasons(tenant, "c"))


def test_a_local_volume_is_made_where_the_pod_is_and_goes_with_its_claim(
    server: LocalServer, tenant: Caller
) -> None:
    assert tenant.post(CLASSES, {"metadata": {"name": "local"}, **LOCAL}).status == 201
    server.system.post("/api/v1/nodes", {"metadata": {"name": "n1"}})
    claim(tenant, "data", storageClassName="local")
    wait_until(lambda: "WaitForFirstConsumer" in reasons(tenant, "data"))
    assert tenant.get(VOLUMES).json["items"] == []
    select_node(tenant, "data", "n1")
    wait_until(lambda: phase(tenant, f"{CLAIMS}/data") == "Bound")
    made = tenant.get(VOLUMES).json["items"]
    assert len(made) == 1 and made[0]["metadata"]["tenant"] == made[0]["metadata"]["selfLink"].split("/")[4]
    assert made[0]["metadata"]["labels"] == {"alcove.io/node": "n1"}
    name = made[0]["metadata"]["name"]
    wait_until(lambda: phase(tenant, f"{VOLUMES}/{name}") == "Bound")
    wait_until(lambda: "ProvisioningSucceeded" in reasons(tenant, "data"))
    tenant.delete(f"{CLAIMS}/data")
    # The node has to wipe it first.
    wait_until(lambda: "deletionTimestamp" in tenant.get(f"{VOLUMES}/{name}").json["metadata"])
    wait_until(
        lambda: tenant.get(f"{VOLUMES}/{name}").json["metadata"]["finalizers"] == ["alcove.io/local-volume"]
    )
    server.system.delete("/api/v1/nodes/n1")
    wait_until(lambda: tenant.get(f"{VOLUMES}/{name}").status == 404)


def test_a_node_that_is_gone_is_chosen_no_more(tenant: Caller) -> None:
    assert tenant.post(CLASSES, {"metadata": {"name": "local"}, **LOCAL}).status == 201
    claim(tenant, "data", storageClassName="local")
    select_node(tenant, "data", "never-was")
    wait_until(lambda: "ProvisioningFailed" in reasons(tenant, "data"))
    chosen = "volume.kubernetes.io/selected-node"
    wait_until(lambda: chosen not in tenant.get(f"{CLAIMS}/data").json["metadata"]["annotations"])


def test_a_claim_grows(server: LocalServer, tenant: Caller) -> None:
    name = make_local(server, tenant, "data", "n2", allowVolumeExpansion=True)
    wanted = {"spec": {"resources": {"requests": {"storage": "3Gi"}}}}
    assert tenant.patch(f"{CLAIMS}/data", wanted).status == 200
    wait_until(lambda: tenant.get(f"{CLAIMS}/data").json["status"]["capacity"] == {"storage": "3Gi"})
    wait_until(lambda: tenant.get(f"{VOLUMES}/{name}").json["spec"]["capacity"] == {"storage": "3Gi"})


def test_a_claim_in_use_stays_until_its_pod_is_gone(tenant: Caller) -> None:
    volume(tenant, "v")
    claim(tenant, "c")
    wait_until(lambda: phase(tenant, f"{CLAIMS}/c") == "Bound")
    use(tenant, "user", "c")
    tenant.delete(f"{CLAIMS}/c")
    claim(tenant, "unused")
    tenant.delete(f"{CLAIMS}/unused")
    wait_until(lambda: tenant.get(f"{CLAIMS}/unused").status == 404)
    assert "deletionTimestamp" in tenant.get(f"{CLAIMS}/c").json["metadata"]
    tenant.delete(f"{PODS}/user?gracePeriodSeconds=0")
    wait_until(lambda: tenant.get(f"{CLAIMS}/c").status == 404)


def test_an_ephemeral_volume_has_a_claim_of_the_pods_own(tenant: Caller) -> None:
    template = {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}
    volumes = [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}]
    spec = {"containers": [{"name": "c", "image": "i"}], "volumes": volumes}
    assert tenant.post(PODS, {"metadata": {"name": "p"}, "spec": spec}).status == 201
    wait_until(lambda: tenant.get(f"{CLAIMS}/p-scratch").status == 200)
    owner = tenant.get(f"{CLAIMS}/p-scratch").json["metadata"]["ownerReferences"][0]
    assert (owner["kind"], owner["name"]) == ("Pod", "p")


def test_a_default_class_that_comes_later_is_taken(tenant: Caller) -> None:
    claim(tenant, "early")
    wait_until(lambda: "FailedBinding" in reasons(tenant, "early"))
    marked = {"name": "late", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}
    assert tenant.post(CLASSES, {"metadata": marked, **LOCAL}).status == 201
    wait_until(lambda: tenant.get(f"{CLAIMS}/early").json["spec"].get("storageClassName") == "late")

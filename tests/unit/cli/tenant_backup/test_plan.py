"""What is restored of each kind, and in which form."""

from typing import Any

import pytest

from alcove.api.objects import Object
from alcove.cli.tenant_backup.archive import ArchivedObject
from alcove.cli.tenant_backup.plan import in_restore_order, is_saved, overwritten, restored, skipped
from alcove.client.discovery import ServedResource
from alcove.client.resources import Resource

SERVICES = Resource("", "v1", "services", "Service")
PODS = Resource("", "v1", "pods", "Pod")
JOBS = Resource("batch", "v1", "jobs", "Job")
CLAIMS = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
VOLUMES = Resource("", "v1", "persistentvolumes", "PersistentVolume", False)
SECRETS = Resource("", "v1", "secrets", "Secret")
NETWORKS = Resource("arktos.futurewei.com", "v1", "networks", "Network", False)
WIDGETS = Resource("example.com", "v1", "widgets", "Widget")
MAPS = Resource("", "v1", "configmaps", "ConfigMap")
SLICES = Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice")


def archived(resource: Resource, *, name: str = "x", **fields: Any) -> ArchivedObject:
    metadata = {"name": name, "namespace": "default", "tenant": "acme", "uid": "old", "resourceVersion": "5"}
    metadata |= fields.pop("metadata", {})
    return ArchivedObject(resource, {"metadata": metadata, **fields}, 1)


def made(resource: Resource, target: str = "acme", **fields: Any) -> Object:
    return restored(archived(resource, **fields), target, {"o1": "n1"})


def test_what_the_cluster_set_is_left_out() -> None:
    metadata = {
        "generation": 3,
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "selfLink": "/x",
        "managedFields": [{}],
        "labels": {"a": "b"},
        "finalizers": ["mine/f"],
    }
    new = made(WIDGETS, metadata=metadata, spec={"a": 1}, status={"kept": True})
    assert new["metadata"] == {
        "name": "x",
        "namespace": "default",
        "labels": {"a": "b"},
        "finalizers": ["mine/f"],
    }
    assert (new["apiVersion"], new["kind"], new["spec"]) == ("example.com/v1", "Widget", {"a": 1})
    assert new["status"] == {"kept": True}, "the server drops it where it is a subresource"


def test_owners_get_their_new_uids_and_missing_ones_are_left_out() -> None:
    owners = [
        {"kind": "A", "name": "a", "uid": "o1", "controller": True},
        {"kind": "B", "name": "b", "uid": "o2"},
    ]
    new = made(MAPS, metadata={"ownerReferences": owners})
    assert new["metadata"]["ownerReferences"] == [{"kind": "A", "name": "a", "uid": "n1", "controller": True}]
    assert "ownerReferences" not in made(MAPS, metadata={"ownerReferences": owners[1:]})["metadata"]


def test_a_service_gets_another_address_unless_it_is_headless() -> None:
    ports = [{"port": 80, "nodePort": 30001}]
    spec = {"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"], "ports": ports, "healthCheckNodePort": 30002}
    assert made(SERVICES, spec=spec)["spec"] == {"ports": [{"port": 80}]}
    headless = {"clusterIP": "None", "clusterIPs": ["None"]}
    assert made(SERVICES, spec=headless)["spec"] == headless
    assert ports == [{"port": 80, "nodePort": 30001}], "the archive's object was changed"


def test_a_claim_is_bound_anew() -> None:
    annotations = {
        "pv.kubernetes.io/bind-completed": "yes",
        "volume.kubernetes.io/selected-node": "n",
        "a": "b",
    }
    new = made(
        CLAIMS, metadata={"annotations": annotations}, spec={"volumeName": "v", "storageClassName": "s"}
    )
    assert new["spec"] == {"storageClassName": "s"} and new["metadata"]["annotations"] == {"a": "b"}
    assert "claimRef" not in made(VOLUMES, spec={"claimRef": {"uid": "u"}, "nfs": {}})["spec"]


def test_a_job_gets_its_selector_anew_unless_it_is_the_users() -> None:
    labels = {"batch.kubernetes.io/controller-uid": "u", "job-name": "x", "app": "a"}
    spec = {
        "selector": {"matchLabels": {"controller-uid": "u"}},
        "template": {"metadata": {"labels": labels}},
    }
    assert made(JOBS, spec=spec)["spec"] == {"template": {"metadata": {"labels": {"app": "a"}}}}
    assert made(JOBS, spec={**spec, "manualSelector": True})["spec"]["selector"] == spec["selector"]


def test_a_token_of_a_service_account_is_issued_anew() -> None:
    annotations = {"kubernetes.io/service-account.name": "a", "kubernetes.io/service-account.uid": "u"}
    new = made(
        SECRETS,
        type="kubernetes.io/service-account-token",
        data={"token": "t"},
        metadata={"annotations": annotations},
    )
    assert "data" not in new
    assert new["metadata"]["annotations"] == {"kubernetes.io/service-account.name": "a"}
    assert made(SECRETS, type="Opaque", data={"a": "b"})["data"] == {"a": "b"}


def test_a_network_of_another_tenant_gets_another_vpc() -> None:
    spec = {"type": "vpc", "vpcID": "v"}
    assert made(NETWORKS, spec=spec)["spec"] == spec
    assert made(NETWORKS, "other", spec=spec)["spec"] == {"type": "vpc"}


@pytest.mark.parametrize(
    ("obj", "reason"),
    [
        (archived(MAPS), ""),
        (archived(MAPS, name="kube-root-ca.crt"), "made by a controller"),
        (archived(MAPS, metadata={"resourceVersion": "0"}), "built in"),
        (archived(MAPS, metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}), "being deleted"),
        (archived(PODS, spec={}), ""),
        (archived(PODS, status={"phase": "Succeeded"}), "finished"),
        (archived(PODS, metadata={"ownerReferences": [{"controller": True}]}), "made by a controller"),
        (archived(PODS, metadata={"ownerReferences": [{"kind": "Team"}]}), ""),
        (archived(JOBS, status={"conditions": [{"type": "Complete", "status": "True"}]}), "finished"),
        (archived(JOBS, status={"conditions": [{"type": "Suspended", "status": "True"}]}), ""),
        (archived(SERVICES, name="kubernetes", spec={}), "made by the network"),
        (archived(VOLUMES, spec={"local": {"path": "/alcove/v"}}), "made for a claim"),
        (archived(VOLUMES, spec={"nfs": {}}), ""),
        (
            archived(SLICES, metadata={"labels": {"endpointslice.kubernetes.io/managed-by": "c"}}),
            "made by a controller",
        ),
        (archived(SLICES), ""),
    ],
)
def test_what_others_make_is_not_restored(obj: ArchivedObject, reason: str) -> None:
    assert skipped(obj) == reason


def test_others_come_after_what_they_need_and_what_may_refuse_them_comes_last() -> None:
    hooks = Resource("admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations", "V", False)
    quotas = Resource("", "v1", "resourcequotas", "ResourceQuota")
    namespaces = Resource("", "v1", "namespaces", "Namespace", False)
    crds = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CRD", False)
    order = in_restore_order([PODS, hooks, WIDGETS, quotas, SECRETS, namespaces, crds])
    assert order[:4] == [crds, namespaces, SECRETS, WIDGETS]
    assert set(order[4:]) == {PODS, quotas, hooks}


def test_resources_that_cannot_be_created_are_not_saved() -> None:
    everything = frozenset({"list", "create", "get"})
    assert is_saved(ServedResource(MAPS, everything))
    assert not is_saved(ServedResource(MAPS, frozenset({"list", "get"})))
    assert not is_saved(ServedResource(Resource("", "v1", "events", "Event"), everything))


def test_an_overwritten_object_keeps_what_the_cluster_gave_it() -> None:
    existing = {
        "metadata": {"name": "x", "uid": "u", "resourceVersion": "9", "finalizers": ["f"]},
        "spec": {"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"], "ports": []},
    }
    update = overwritten(made(SERVICES, spec={"ports": [{"port": 1}]}), existing, SERVICES)
    assert update["spec"] == {"ports": [{"port": 1}], "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"]}
    assert update["metadata"]["resourceVersion"] == "9" and update["metadata"]["finalizers"] == ["f"]

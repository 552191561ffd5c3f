"""What a node may write, decided by the new and the old object."""

from typing import Any

import pytest

from alcove.api.errors import Forbidden
from alcove.api.ids import SYSTEM, GroupResource, TenantId
from alcove.api.kind import Kind, Scope
from alcove.api.objects import Object
from alcove.api.resources import (
    CSI_NODES,
    EVENTS,
    LEASES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    POD_CERTIFICATE_REQUESTS,
    PODS,
    SERVICE_ACCOUNTS,
)
from alcove.api.schema.node import SchemaNode, SchemaType
from alcove.apiserver.admission import noderestriction
from alcove.apiserver.admission.base import Attributes, Operation
from alcove.apiserver.admission.noderestriction import NodeRestriction
from alcove.apiserver.identity import Identity
from alcove.testing.memory_reader import MemoryReader

ACME = TenantId("acme")
A = Identity(SYSTEM, "system:node:a", ("system:nodes", "system:authenticated"))
ANN = Identity(ACME, "ann")
CREATE, UPDATE, DELETE = Operation.CREATE, Operation.UPDATE, Operation.DELETE


def kind(resource: GroupResource) -> Kind:
    return Kind(
        group=resource.group,
        version="v1",
        kind=resource.resource,
        resource=resource.resource,
        singular=resource.resource,
        scope=Scope.TENANT,
        schema=SchemaNode(SchemaType.OBJECT),
    )


def certified(name: str) -> Object:
    """A pod with a certificate in a volume."""
    source = {"podCertificate": {"signerName": "example.com/signer"}}
    spec = {
        "nodeName": "a" if name == "mine" else "b",
        "serviceAccountName": name,
        "volumes": [{"projected": {"sources": [source]}}],
    }
    return {"metadata": {"name": name, "namespace": "ns", "uid": f"pod-{name}"}, "spec": spec}


async def refusal(
    resource: GroupResource,
    new: Object | None,
    old: Object | None = None,
    *,
    subresource: str = "",
    tenant: TenantId = SYSTEM,
    identity: Identity = A,
    **more: Any,
) -> str:
    """The plugin's error message; empty if it admits the write."""
    reader = MemoryReader()
    reader.put(SYSTEM, NODES, {"metadata": {"name": "a", "uid": "uid-a"}})
    for each in ("mine", "theirs"):
        reader.put(
            ACME, SERVICE_ACCOUNTS, {"metadata": {"name": each, "namespace": "ns", "uid": f"account-{each}"}}
        )
        reader.put(ACME, PODS, certified(each))
    named = new or old or {}
    operation = CREATE if old is None else DELETE if new is None else UPDATE
    plugin = NodeRestriction(reader)
    assert plugin.handles(operation, resource, subresource)
    attributes = Attributes(
        operation=operation,
        kind=kind(resource),
        tenant=tenant,
        namespace=named["metadata"].get("namespace", ""),
        name=named["metadata"]["name"],
        subresource=subresource,
        obj=new,
        old=old,
        identity=identity,
        **more,
    )
    try:
        await plugin.admit(attributes)
    except Forbidden as error:
        return error.message
    return ""


def node(
    name: str = "a", spec: Object | None = None, labels: Object | None = None, **metadata: Any
) -> Object:
    return {"metadata": {"name": name, "labels": labels or {}, **metadata}, "spec": spec or {}}


@pytest.mark.parametrize(
    ("new", "message"),
    [
        (node(), ""),
        (node(labels={"kubernetes.io/hostname": "a", "example.com/rack": "1"}), ""),
        (node(labels={"node.kubernetes.io/instance-type": "big", "kubelet.kubernetes.io/x": "1"}), ""),
        (node(spec={"taints": [{"key": "new", "effect": "NoSchedule"}]}), ""),
        (node("b"), "its own Node"),
        (node(labels={"node-restriction.kubernetes.io/pci": "yes"}), "node-restriction.kubernetes.io/pci"),
        (node(labels={"x.node-restriction.kubernetes.io/pci": "yes"}), "labels that are not its own"),
        (node(labels={"node-role.kubernetes.io/control-plane": ""}), "labels that are not its own"),
        (node(labels={"k8s.io/x": ""}), "labels that are not its own"),
        (node(ownerReferences=[{"kind": "Node"}]), "metadata.ownerReferences"),
        (node(finalizers=["x/y"]), "metadata.finalizers"),
    ],
)
async def test_registration(new: Object, message: str) -> None:
    actual = await refusal(NODES, new)
    assert message in actual and bool(message) == bool(actual)


TAINTED = {"taints": [{"key": "bad"}], "unschedulable": True}


@pytest.mark.parametrize("subresource", ["", "status"])
@pytest.mark.parametrize(
    ("new", "old", "message"),
    [
        (node(annotations={"a": "b"}), node(), ""),
        (node(labels={"kubernetes.io/os": "linux"}), node(), ""),
        (node(), node(labels={"topology.kubernetes.io/zone": "z"}), ""),
        (node(spec={"providerID": "x"}), node(), ""),
        (node(spec=TAINTED, annotations={"a": "b"}), node(spec=TAINTED), ""),
        (node(spec={"providerID": "y"}), node(spec={"providerID": "x"}), "spec.providerID"),
        (node(), node(spec={"taints": [{"key": "bad"}]}), "spec.taints"),
        (node(spec=TAINTED), node(), "spec.taints"),
        (node(), node(spec={"unschedulable": True}), "spec.unschedulable"),
        (node(spec={"podCIDR": "10.0.0.0/8"}), node(), "spec.podCIDR"),
        (node(labels={"team": "red"}), node(labels={"team": "blue"}), "team"),
        (node(), node(labels={"team": "blue"}), "team"),
        (node(labels={"team": "blue"}), node(), "team"),
        (node(labels={"node-restriction.kubernetes.io/x": ""}), node(), "node-restriction.kubernetes.io/x"),
        (node(ownerReferences=[{"kind": "Node"}]), node(), "metadata.ownerReferences"),
        (node(), node(finalizers=["x/y"]), "metadata.finalizers"),
        (node("b"), node("b"), "its own Node"),
    ],
)
async def test_changes_of_a_node(new: Object, old: Object, message: str, subresource: str) -> None:
    actual = await refusal(NODES, new, old, subresource=subresource)
    assert message in actual and bool(message) == bool(actual)


def pod(node_name: str, **status: Any) -> Object:
    return {
        "metadata": {"name": "p", "namespace": "ns"},
        "spec": {"nodeName": node_name} if node_name else {},
        "status": status,
    }


def labelled(obj: Object) -> Object:
    return {**obj, "metadata": {**obj["metadata"], "labels": {"app": "theirs"}}}


CLAIMED = [{"name": "x", "resourceClaimName": "y"}]


@pytest.mark.parametrize(
    ("new", "old", "subresource", "message"),
    [
        (pod("a", phase="Running"), pod("a"), "status", ""),
        (
            pod("a", phase="Running", resourceClaimStatuses=CLAIMED),
            pod("a", resourceClaimStatuses=CLAIMED),
            "status",
            "",
        ),
        (None, pod("a"), "", ""),
        (None, pod("a"), "eviction", ""),
        (pod("b", phase="Running"), pod("b"), "status", "bound to itself"),
        (pod("", phase="Running"), pod(""), "status", "bound to itself"),
        (None, pod("b"), "", "bound to itself"),
        (None, pod("b"), "eviction", "bound to itself"),
        (pod("a"), pod("a"), "", "only write the status"),
        (pod("a"), pod("a"), "ephemeralcontainers", "only write the status"),
        (pod("a"), pod(""), "binding", "bound to itself"),
        (pod("a", resourceClaimStatuses=CLAIMED), pod("a"), "status", "status.resourceClaimStatuses"),
        (pod("a"), pod("a", resourceClaimStatuses=CLAIMED), "status", "status.resourceClaimStatuses"),
        (
            pod("a", extendedResourceClaimStatus={"resourceClaimName": "y"}),
            pod("a"),
            "status",
            "status.extendedResourceClaimStatus",
        ),
        (pod("a", nominatedNodeName="a"), pod("a"), "status", "status.nominatedNodeName"),
        (labelled(pod("a", phase="Running")), pod("a"), "status", "metadata.labels"),
    ],
)
async def test_pods(new: Object | None, old: Object, subresource: str, message: str) -> None:
    actual = await refusal(PODS, new, old, subresource=subresource, tenant=ACME)
    assert message in actual and bool(message) == bool(actual)


OWNER = {"apiVersion": "v1", "kind": "Node", "name": "a", "uid": "uid-a", "controller": True}


def mirror(owners: list[Object] | None = None, annotation: bool = True, **spec: Any) -> Object:
    metadata = {
        "name": "p",
        "namespace": "ns",
        "annotations": {"kubernetes.io/config.mirror": "x"} if annotation else {},
        "ownerReferences": [OWNER] if owners is None else owners,
    }
    return {"metadata": metadata, "spec": {"nodeName": "a", **spec}}


def volume(**source: Any) -> list[Object]:
    return [{"name": "v", **source}]


@pytest.mark.parametrize(
    ("new", "message"),
    [
        (mirror(), ""),
        (mirror(volumes=volume(hostPath={"path": "/etc"})), ""),
        (mirror(annotation=False), "mirror pods"),
        (mirror(nodeName="b"), "bound to itself"),
        (mirror([]), "owner"),
        (mirror([OWNER, OWNER]), "owner"),
        (mirror([{**OWNER, "uid": "else"}]), "owner"),
        (mirror([{**OWNER, "name": "b"}]), "owner"),
        (mirror([{**OWNER, "kind": "ReplicaSet"}]), "owner"),
        (mirror([{**OWNER, "controller": False}]), "owner"),
        (mirror([{**OWNER, "blockOwnerDeletion": True}]), "from being deleted"),
        (mirror(serviceAccountName="robot"), "refer to"),
        (mirror(volumes=volume(secret={"secretName": "s"})), "refer to"),
        (mirror(volumes=volume(configMap={"name": "m"})), "refer to"),
        (mirror(volumes=volume(persistentVolumeClaim={"claimName": "c"})), "refer to"),
        (mirror(volumes=volume(projected={"sources": [{"serviceAccountToken": {"path": "t"}}]})), "refer to"),
        (mirror(resourceClaims=[{"name": "r", "resourceClaimName": "c"}]), "refer to"),
    ],
)
async def test_new_pods(new: Object, message: str) -> None:
    actual = await refusal(PODS, new)
    assert message in actual and bool(message) == bool(actual)


def lease(name: str, namespace: str = "kube-node-lease") -> Object:
    return {"metadata": {"name": name, "namespace": namespace}}


@pytest.mark.parametrize(
    ("resource", "obj", "tenant", "passes"),
    [
        (LEASES, lease("a"), SYSTEM, True),
        (LEASES, lease("b"), SYSTEM, False),
        (LEASES, lease("a", "kube-system"), SYSTEM, False),
        (LEASES, lease("a"), ACME, False),
        (CSI_NODES, node("a"), SYSTEM, True),
        (CSI_NODES, node("b"), SYSTEM, False),
        (CSI_NODES, node("a"), ACME, False),
    ],
)
async def test_what_has_the_nodes_name(
    resource: GroupResource, obj: Object, tenant: TenantId, passes: bool
) -> None:
    for new, old in ((obj, None), (obj, obj), (None, obj)):
        assert bool(await refusal(resource, new, old, tenant=tenant)) != passes


async def test_of_a_claim_it_writes_what_it_did_to_the_volume() -> None:
    def claim(**status: Any) -> Object:
        return {"metadata": {"name": "c", "namespace": "ns"}, "status": {"phase": "Bound", **status}}

    grown = claim(capacity={"storage": "2Gi"})
    assert await refusal(PERSISTENT_VOLUME_CLAIMS, grown, claim(), subresource="status", tenant=ACME) == ""
    lost = await refusal(
        PERSISTENT_VOLUME_CLAIMS, claim(phase="Lost"), claim(), subresource="status", tenant=ACME
    )
    assert "cannot change status.phase" in lost
    assert "only write the status" in await refusal(PERSISTENT_VOLUME_CLAIMS, grown, claim(), tenant=ACME)
    assert "only write the status" in await refusal(PERSISTENT_VOLUME_CLAIMS, None, claim(), tenant=ACME)


async def test_a_node_writes_events_only_under_its_own_name() -> None:
    def event(host: str, instance: str = "") -> Object:
        metadata = {"name": "e", "namespace": "ns"}
        return {"metadata": metadata, "source": {"host": host}, "reportingInstance": instance}

    for right in (event("a"), event("", "a"), event("a", "a")):
        assert await refusal(EVENTS, right, tenant=ACME) == ""
        assert await refusal(EVENTS, right, event("a"), tenant=ACME) == ""
        assert await refusal(EVENTS, right, event("b"), tenant=ACME)
    for wrong in (event("b"), event(""), event("a", "b"), event("b", "a")):
        assert "as their source" in await refusal(EVENTS, wrong, tenant=ACME)


async def test_other_identities_are_not_restricted() -> None:
    for identity in (ANN, Identity(ACME, A.user, A.groups), Identity(SYSTEM, A.user)):
        assert await refusal(PODS, pod("b"), pod("b"), identity=identity) == ""
        assert await refusal(NODES, node("b"), identity=identity) == ""


async def test_changes_of_webhooks_are_not_restricted() -> None:
    assert await refusal(NODES, node(labels={"team": "x"}), node(), is_reinvoked=True) == ""


# Tokens


def bound(**ref: Any) -> Object:
    return {"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "mine", "uid": "u1", **ref}}


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (bound(), ""),
        (bound(apiVersion=""), ""),
        ({**bound(), "audiences": ["vault"]}, ""),
        ({**bound(), "audiences": ["vault", "bank"]}, "audiences"),
        ({}, "bound to a pod"),
        (bound(uid=""), "bound to a pod"),
        (bound(kind="Secret"), "bound to a pod"),
        (bound(kind="Node"), "bound to a pod"),
        (bound(apiVersion="example.com/v1"), "bound to a pod"),
        (bound(uid="u2"), "pods bound to itself"),
        (bound(name="theirs", uid="u2"), "pods bound to itself"),
        (bound(name="none", uid="u3"), "pods bound to itself"),
    ],
)
def test_tokens(spec: Object, message: str) -> None:
    reader = MemoryReader()
    sources = [{"serviceAccountToken": {"path": "t"}}, {"serviceAccountToken": {"audience": "vault"}}]
    for name, uid, where in (("mine", "u1", "a"), ("theirs", "u2", "b")):
        metadata = {"name": name, "namespace": "ns", "uid": uid}
        spec_of_pod = {"nodeName": where, "volumes": [{"name": "v", "projected": {"sources": sources}}]}
        reader.put(ACME, PODS, {"metadata": metadata, "spec": spec_of_pod})

    def check(identity: Identity) -> None:
        noderestriction.check_token(reader, identity, ACME, "ns", "robot", {"spec": spec})

    check(ANN)
    if not message:
        check(A)
        return
    with pytest.raises(Forbidden, match=message):
        check(A)


def test_a_pod_without_token_volumes_gets_no_token_from_its_node() -> None:
    reader = MemoryReader()
    metadata = {"name": "mine", "namespace": "ns", "uid": "u1"}
    reader.put(ACME, PODS, {"metadata": metadata, "spec": {"nodeName": "a"}})
    with pytest.raises(Forbidden, match="audiences"):
        noderestriction.check_token(reader, A, ACME, "ns", "robot", {"spec": bound()})


def wiped(*finalizers: str, node_name: str = "a", deleted: bool = True, **spec: Any) -> Object:
    metadata: Object = {"name": "v", "labels": {"alcove.io/node": node_name}, "finalizers": list(finalizers)}
    if deleted:
        metadata["deletionTimestamp"] = "2024-01-01T00:00:00Z"
    return {"metadata": metadata, "spec": {"local": {"path": "/alcove/v"}, **spec}}


HELD = "alcove.io/local-volume"


@pytest.mark.parametrize(
    ("new", "old", "message"),
    [
        (wiped(), wiped(HELD), ""),
        (wiped("other"), wiped("other", HELD), ""),
        (wiped(), wiped("other", HELD), "can only remove the finalizer"),
        (wiped("new"), wiped(HELD), "can only remove the finalizer"),
        (wiped(deleted=False), wiped(HELD, deleted=False), "of its own deleted volumes"),
        (wiped(node_name="b"), wiped(HELD, node_name="b"), "of its own deleted volumes"),
        (wiped(node_name="b"), wiped(HELD), "cannot change volumes"),
        (wiped(capacity={"storage": "9Gi"}), wiped(HELD), "cannot change volumes"),
        (None, wiped(), "of its own deleted volumes"),
        (wiped(HELD), None, "of its own deleted volumes"),
    ],
)
async def test_of_volumes_only_that_its_own_are_wiped(
    new: Object | None, old: Object | None, message: str
) -> None:
    actual = await refusal(PERSISTENT_VOLUMES, new, old, tenant=ACME)
    assert message in actual and bool(message) == bool(actual)


def certificate_request(**spec: str) -> Object:
    whole = {
        "signerName": "example.com/signer",
        "nodeName": "a",
        "nodeUID": "uid-a",
        "podName": "mine",
        "podUID": "pod-mine",
        "serviceAccountName": "mine",
        "serviceAccountUID": "account-mine",
    }
    return {"metadata": {"name": "r", "namespace": "ns"}, "spec": {**whole, **spec}}


@pytest.mark.parametrize(
    ("new", "message"),
    [
        (certificate_request(), ""),
        (certificate_request(nodeName="b"), "in its own name"),
        (certificate_request(nodeUID="uid-b"), "in its own name"),
        (certificate_request(podName="theirs", podUID="pod-theirs"), "of pods bound to itself"),
        (certificate_request(podName="none"), "of pods bound to itself"),
        (certificate_request(podUID="before"), "of pods bound to itself"),
        (certificate_request(serviceAccountName="theirs"), "for the service accounts of its pods"),
        (certificate_request(serviceAccountUID="account-theirs"), "for the service accounts of its pods"),
        (certificate_request(signerName="example.com/other"), "of the signers that the pod's volumes name"),
    ],
)
async def test_certificates_only_of_its_pods_and_their_signers(new: Object, message: str) -> None:
    actual = await refusal(POD_CERTIFICATE_REQUESTS, new, tenant=ACME)
    assert message in actual and bool(message) == bool(actual)
    assert await refusal(POD_CERTIFICATE_REQUESTS, new, new, subresource="status", tenant=ACME)

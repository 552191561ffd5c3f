"""The permissions of a node, as tables: two nodes, two tenants, and pods that are created and deleted."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alcove.api.ids import ALL, SYSTEM, GroupResource, TenantId
from alcove.api.objects import Object
from alcove.api.resources import (
    CERTIFICATE_SIGNING_REQUESTS,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    POD_CERTIFICATE_REQUESTS,
    PODS,
    VOLUME_ATTACHMENTS,
)
from alcove.apiserver.identity import Identity
from alcove.apiserver.rbac import nodes, podreferences
from alcove.apiserver.rbac.authorize import Access, Authorizer
from alcove.apiserver.rbac.defaults import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES
from alcove.apiserver.rbac.nodes import NodeAuthorizer, node_name
from alcove.testing.memory_reader import MemoryReader

ACME, OTHER, EMPTY = TenantId("acme"), TenantId("other"), TenantId("empty")
GROUPS = ("system:nodes", "system:authenticated")
A, B = (Identity(SYSTEM, f"system:node:{name}", GROUPS) for name in ("a", "b"))


def pod(name: str, node: str, secret: str = "", namespace: str = "ns") -> Object:
    volumes = [
        {"name": "s", "secret": {"secretName": secret}},
        {"name": "m", "configMap": {"name": f"{secret}-map"}},
        {"name": "p", "persistentVolumeClaim": {"claimName": f"{secret}-claim"}},
    ]
    spec: Object = {"serviceAccountName": f"{secret}-account", "volumes": volumes}
    spec["resourceClaims"] = [{"name": "r", "resourceClaimName": f"{secret}-device"}]
    if node:
        spec["nodeName"] = node
    return {"metadata": {"name": name, "namespace": namespace}, "spec": spec}


def volume(name: str, claim: str, secret: str) -> Object:
    csi = {
        "driver": "d",
        "nodePublishSecretRef": {"namespace": "kube-system", "name": secret},
        "controllerPublishSecretRef": {"namespace": "kube-system", "name": f"{secret}-controller"},
    }
    spec = {"claimRef": {"namespace": "ns", "name": claim}, "csi": csi}
    return {"metadata": {"name": name}, "spec": spec}


def claim(name: str, volume_name: str) -> Object:
    return {"metadata": {"name": name, "namespace": "ns"}, "spec": {"volumeName": volume_name}}


@pytest.fixture
def reader() -> MemoryReader:
    """Node a: acme/ns/web with what is called `mine`. Node b: acme's and other's pods with `theirs`."""
    reader = MemoryReader()
    reader.put(ACME, PODS, pod("web", "a", "mine"))
    reader.put(ACME, PODS, pod("db", "b", "theirs"))
    reader.put(ACME, PODS, pod("new", "", "waiting"))
    reader.put(OTHER, PODS, pod("web", "b", "mine"))
    for whose in ("mine", "theirs"):
        reader.put(ACME, PERSISTENT_VOLUME_CLAIMS, claim(f"{whose}-claim", f"{whose}-volume"))
        reader.put(ACME, PERSISTENT_VOLUMES, volume(f"{whose}-volume", f"{whose}-claim", f"{whose}-key"))
    reader.put(ACME, PERSISTENT_VOLUMES, volume("stray-volume", "mine-claim", "stray-key"))
    for node in ("a", "b"):
        attachment = {"metadata": {"name": f"to-{node}"}, "spec": {"nodeName": node}}
        reader.put(ACME, VOLUME_ATTACHMENTS, attachment)
        request = {"metadata": {"name": f"of-{node}"}, "spec": {"username": f"system:node:{node}"}}
        reader.put(SYSTEM, CERTIFICATE_SIGNING_REQUESTS, request)
        of_pod = {"metadata": {"name": f"req-{node}", "namespace": "ns"}, "spec": {"nodeName": node}}
        reader.put(ACME, POD_CERTIFICATE_REQUESTS, of_pod)
    return reader


def access(verb: str, tenant: TenantId, what: str, where: str = "", fields: str = "") -> Access:
    """`what` is `resource/subresource.group`, `where` is `namespace/name`."""
    path, _, group = what.partition(".")
    resource, _, subresource = path.partition("/")
    namespace, _, name = where.rpartition("/")
    return Access(verb, tenant, group, resource, subresource, namespace, name, fields=fields)


READS = ("get", "list", "watch")
NAMED_MINE = [
    ("secrets", "ns/mine"),
    ("configmaps", "ns/mine-map"),
    ("persistentvolumeclaims", "ns/mine-claim"),
    ("resourceclaims.resource.k8s.io", "ns/mine-device"),
    ("persistentvolumes", "mine-volume"),
    ("secrets", "kube-system/mine-key"),
    ("volumeattachments.storage.k8s.io", "to-a"),
]


@pytest.mark.parametrize("verb", READS)
@pytest.mark.parametrize(("what", "where"), NAMED_MINE)
def test_what_its_pods_name_it_reads_one_by_one(
    reader: MemoryReader, verb: str, what: str, where: str
) -> None:
    authorizer = Authorizer(reader)
    assert authorizer.allows(A, access(verb, ACME, what, where))
    assert not authorizer.allows(B, access(verb, ACME, what, where))
    namespace = where.rpartition("/")[0]
    for tenant in (ACME, SYSTEM, ALL, EMPTY):
        for where in (f"{namespace}/", "", "else/mine"):
            assert not authorizer.allows(A, access(verb, tenant, what, where))


def test_it_reads_what_is_reserved_on_it_for_dedicated_planes(reader: MemoryReader) -> None:
    authorizer = Authorizer(reader)
    assert authorizer.allows(A, access("get", SYSTEM, "configmaps", "alcove-escrow/a"))
    for verb, tenant, where in (
        ("get", SYSTEM, "alcove-escrow/b"),
        ("get", ACME, "alcove-escrow/a"),
        ("get", SYSTEM, "kube-system/a"),
        ("update", SYSTEM, "alcove-escrow/a"),
        ("list", SYSTEM, "alcove-escrow/"),
    ):
        assert not authorizer.allows(A, access(verb, tenant, "configmaps", where))


def test_it_reads_the_credentials_for_foreign_planes(reader: MemoryReader) -> None:
    authorizer = Authorizer(reader)
    for verb, where in (
        ("get", "alcove-planes/office"),
        ("list", "alcove-planes/"),
        ("watch", "alcove-planes/"),
    ):
        assert authorizer.allows(A, access(verb, SYSTEM, "secrets", where))
    for verb, tenant, where in (
        ("list", SYSTEM, "kube-system/"),
        ("list", SYSTEM, "/"),
        ("list", ACME, "alcove-planes/"),
        ("get", ACME, "alcove-planes/office"),
        ("update", SYSTEM, "alcove-planes/office"),
        ("create", SYSTEM, "alcove-planes/office"),
    ):
        assert not authorizer.allows(A, access(verb, tenant, "secrets", where))


@pytest.mark.parametrize("verb", ["create", "update", "patch", "delete", "deletecollection", "*"])
@pytest.mark.parametrize(("what", "where"), NAMED_MINE)
def test_what_its_pods_name_it_does_not_write(reader: MemoryReader, verb: str, what: str, where: str) -> None:
    assert not Authorizer(reader).allows(A, access(verb, ACME, what, where))


@pytest.mark.parametrize("verb", READS)
@pytest.mark.parametrize(
    ("tenant", "what", "where"),
    [
        (ACME, "secrets", "ns/theirs"),
        (ACME, "secrets", "ns/waiting"),
        (ACME, "secrets", "else/mine"),
        (OTHER, "secrets", "ns/mine"),
        (SYSTEM, "secrets", "ns/mine"),
        (ALL, "secrets", "ns/mine"),
        (ACME, "secrets", "kube-system/theirs-key"),
        (ACME, "secrets", "kube-system/mine-key-controller"),
        (ACME, "secrets", "kube-system/stray-key"),
        (ACME, "configmaps", "ns/theirs-map"),
        (ACME, "persistentvolumes", "theirs-volume"),
        (ACME, "persistentvolumes", "stray-volume"),
        (ACME, "persistentvolumes", "no-volume"),
        (ACME, "volumeattachments.storage.k8s.io", "to-b"),
        (ACME, "serviceaccounts", "ns/theirs-account"),
        (ACME, "podcertificaterequests.certificates.k8s.io", "ns/req-b"),
        (ACME, "podcertificaterequests.certificates.k8s.io", ""),
        (ACME, "secrets.example.com", "ns/mine"),
        (ACME, "roles.rbac.authorization.k8s.io", "ns/x"),
        (SYSTEM, "certificatesigningrequests.certificates.k8s.io", "of-b"),
        (SYSTEM, "certificatesigningrequests.certificates.k8s.io", ""),
    ],
)
def test_what_nothing_on_it_names_is_not_for_it(
    reader: MemoryReader, verb: str, tenant: TenantId, what: str, where: str
) -> None:
    assert not Authorizer(reader).allows(A, access(verb, tenant, what, where))


@pytest.mark.parametrize("tenant", [ACME, OTHER, ALL])
@pytest.mark.parametrize(
    ("fields", "allowed"),
    [
        ("spec.nodeName=a", True),
        ("spec.nodeName==a", True),
        ("spec.nodeName=a,status.phase!=Failed", True),
        ("", False),
        ("spec.nodeName=b", False),
        ("spec.nodeName!=b", False),
        ("spec.nodeName=", False),
        ("spec.nodeName=b,spec.nodeName=a", False),
        ("metadata.name=web", False),
        ("status.phase=Running", False),
        ("spec.nodeName", False),
        ("metadata.name=x\\,spec.nodeName=a", False),
    ],
)
def test_pods_are_listed_by_its_own_name_only(
    reader: MemoryReader, tenant: TenantId, fields: str, allowed: bool
) -> None:
    authorizer = Authorizer(reader)
    for verb in ("list", "watch"):
        assert authorizer.allows(A, access(verb, tenant, "pods", fields=fields)) == allowed
    assert not authorizer.allows(A, access("deletecollection", tenant, "pods", fields=fields))


def ingress(name: str, secret: str, **spec: str) -> Object:
    tls = [{"secretName": secret, "hosts": ["a.example"]}]
    return {"metadata": {"name": name, "namespace": "ns"}, "spec": {"tls": tls, **spec}}


def test_certificates_of_ingresses_are_read_where_they_are_served(reader: MemoryReader) -> None:
    kind = GroupResource("networking.k8s.io", "ingresses")
    own = {"metadata": {"name": "public"}, "spec": {"controller": "alcove.io/ingress"}}
    reader.put(ACME, GroupResource("networking.k8s.io", "ingressclasses"), own)
    for name, spec in (
        ("plain", {"ingressClassName": "alcove"}),
        ("ours", {"ingressClassName": "public"}),
        ("others", {"ingressClassName": "nginx"}),
        ("nobodys", {}),
    ):
        for tenant in (ACME, OTHER):
            reader.put(tenant, kind, ingress(name, f"{name}-tls", **spec))
    authorizer = Authorizer(reader)
    for name, allowed in (
        ("plain", True),
        ("ours", True),
        ("others", False),
        ("nobodys", False),
        ("no", False),
    ):
        assert authorizer.allows(A, access("get", ACME, "secrets", f"ns/{name}-tls")) == allowed
        assert not authorizer.allows(A, access("get", OTHER, "secrets", f"ns/{name}-tls"))
        assert not authorizer.allows(A, access("get", ACME, "secrets", f"elsewhere/{name}-tls"))
        assert not authorizer.allows(A, access("update", ACME, "secrets", f"ns/{name}-tls"))
    assert not authorizer.allows(A, access("list", ACME, "secrets"))
    for what in ("ingresses", "ingressclasses"):
        assert authorizer.allows(A, access("watch", ACME, f"{what}.networking.k8s.io"))
        assert not authorizer.allows(A, access("watch", OTHER, f"{what}.networking.k8s.io"))
        assert not authorizer.allows(A, access("update", ACME, f"{what}.networking.k8s.io", "ns/x"))


def test_of_pods_elsewhere_it_sees_metadata_in_tenants_that_have_a_pod_there(reader: MemoryReader) -> None:
    authorizer = Authorizer(reader)
    for verb in ("list", "watch"):
        assert authorizer.allows(A, Access(verb, ACME, "", "pods", metadata_only=True))
        for tenant in (ALL, OTHER, EMPTY):
            assert not authorizer.allows(A, Access(verb, tenant, "", "pods", metadata_only=True))
        assert not authorizer.allows(A, Access(verb, ACME, "", "secrets", metadata_only=True))
    assert not authorizer.allows(A, Access("deletecollection", ACME, "", "pods", metadata_only=True))


@pytest.mark.parametrize(
    ("verb", "what", "where", "allowed"),
    [
        ("get", "pods", "ns/web", True),
        ("delete", "pods", "ns/web", True),
        ("update", "pods/status", "ns/web", True),
        ("patch", "pods/status", "ns/web", True),
        ("create", "pods/eviction", "ns/web", True),
        ("get", "serviceaccounts", "ns/mine-account", True),
        ("create", "serviceaccounts/token", "ns/mine-account", True),
        ("create", "podcertificaterequests.certificates.k8s.io", "ns/", True),
        ("get", "podcertificaterequests.certificates.k8s.io", "ns/req-a", True),
        ("patch", "persistentvolumeclaims/status", "ns/mine-claim", True),
        ("watch", "serviceaccounts", "ns/mine-account", False),
        ("update", "podcertificaterequests/status.certificates.k8s.io", "ns/req-a", False),
        ("delete", "podcertificaterequests.certificates.k8s.io", "ns/req-a", False),
        ("get", "pods", "ns/db", False),
        ("get", "pods", "ns/new", False),
        ("get", "pods", "ns/none", False),
        ("watch", "pods", "ns/web", False),
        ("delete", "pods", "ns/db", False),
        ("update", "pods/status", "ns/db", False),
        ("create", "pods/eviction", "ns/db", False),
        ("create", "serviceaccounts/token", "ns/theirs-account", False),
        ("patch", "persistentvolumeclaims/status", "ns/theirs-claim", False),
        ("update", "pods", "ns/web", False),
        ("patch", "pods", "ns/web", False),
        ("create", "pods", "ns/", False),
        ("create", "pods/binding", "ns/web", False),
        ("create", "pods/exec", "ns/web", False),
        ("get", "pods/log", "ns/web", False),
        ("patch", "pods/ephemeralcontainers", "ns/web", False),
        ("impersonate", "users", "admin", False),
        ("create", "clusterrolebindings.rbac.authorization.k8s.io", "", False),
        ("approve", "signers.certificates.k8s.io", "kubernetes.io/kube-apiserver-client", False),
    ],
)
def test_pods(reader: MemoryReader, verb: str, what: str, where: str, allowed: bool) -> None:
    assert Authorizer(reader).allows(A, access(verb, ACME, what, where)) == allowed


PRESENT = [
    "endpoints",
    "namespaces",
    "networks",
    "services",
    "networks.arktos.futurewei.com",
    "endpointslices.discovery.k8s.io",
    "networkpolicies.networking.k8s.io",
    "runtimeclasses.node.k8s.io",
    "priorityclasses.scheduling.k8s.io",
    "csidrivers.storage.k8s.io",
    "storageclasses.storage.k8s.io",
]


@pytest.mark.parametrize("what", PRESENT)
def test_services_and_their_like_are_read_in_tenants_that_have_a_pod_there(
    reader: MemoryReader, what: str
) -> None:
    authorizer = Authorizer(reader)
    for verb in READS:
        allowed = [authorizer.allows(A, access(verb, tenant, what)) for tenant in (ACME, OTHER, EMPTY, ALL)]
        assert allowed == [True, False, False, False]
        assert authorizer.allows(B, access(verb, OTHER, what))
    for verb in ("create", "update", "patch", "delete", "deletecollection"):
        assert not authorizer.allows(A, access(verb, ACME, what, "ns/x"))


@pytest.mark.parametrize("what", ["events", "events.events.k8s.io"])
def test_events_are_written_where_it_has_to_do(reader: MemoryReader, what: str) -> None:
    authorizer = Authorizer(reader)
    for verb in ("create", "patch", "update"):
        allowed = [
            authorizer.allows(A, access(verb, tenant, what, "ns/e")) for tenant in (ACME, SYSTEM, OTHER)
        ]
        assert allowed == [True, True, False]
    for verb in ("get", "list", "watch", "delete"):
        assert not authorizer.allows(A, access(verb, ACME, what, "ns/e"))


@pytest.mark.parametrize(
    ("what", "namespace", "verbs"),
    [
        ("nodes", "", "create get list patch update watch"),
        ("nodes/status", "", "get patch update"),
        ("csinodes.storage.k8s.io", "", "create delete get patch update"),
        ("leases.coordination.k8s.io", "kube-node-lease/", "create delete get patch update"),
        ("certificatesigningrequests.certificates.k8s.io", "of-", "create get list watch"),
    ],
)
def test_of_ring0s_objects_it_has_its_own(
    reader: MemoryReader, what: str, namespace: str, verbs: str
) -> None:
    authorizer = Authorizer(reader)
    for verb in ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"):
        expected = verb in verbs.split()
        assert authorizer.allows(A, access(verb, SYSTEM, what, f"{namespace}a")) == expected, verb
        if verb != "create":
            assert not authorizer.allows(A, access(verb, SYSTEM, what, f"{namespace}b"))
            assert not authorizer.allows(A, access(verb, SYSTEM, what, namespace.removesuffix("of-")))
        assert not authorizer.allows(A, access(verb, ACME, what, f"{namespace}a"))


def test_a_lease_elsewhere_is_not_its_own(reader: MemoryReader) -> None:
    for verb in ("create", "get", "update"):
        wanted = access(verb, SYSTEM, "leases.coordination.k8s.io", "kube-system/a")
        assert not Authorizer(reader).allows(A, wanted)


@pytest.mark.parametrize(
    ("verb", "tenant", "what", "allowed"),
    [
        ("list", SYSTEM, "tenants", True),
        ("watch", SYSTEM, "endpoints.mizar.com", True),
        ("list", ALL, "droplets.mizar.com", True),
        ("patch", SYSTEM, "endpoints.mizar.com", False),
        ("create", SYSTEM, "droplets.mizar.com", False),
        ("delete", SYSTEM, "tenants", False),
        ("create", SYSTEM, "tokenreviews.authentication.k8s.io", True),
        ("create", SYSTEM, "subjectaccessreviews.authorization.k8s.io", True),
        ("create", ACME, "tokenreviews.authentication.k8s.io", False),
        ("create", ACME, "subjectaccessreviews.authorization.k8s.io", False),
        ("create", SYSTEM, "certificatesigningrequests/selfnodeclient.certificates.k8s.io", True),
        ("create", SYSTEM, "certificatesigningrequests/nodeclient.certificates.k8s.io", False),
        ("update", SYSTEM, "certificatesigningrequests/approval.certificates.k8s.io", False),
        ("create", SYSTEM, "pods", True),
        ("list", SYSTEM, "secrets", False),
    ],
)
def test_ring0s_kinds(reader: MemoryReader, verb: str, tenant: TenantId, what: str, allowed: bool) -> None:
    assert Authorizer(reader).allows(A, access(verb, tenant, what)) == allowed


def test_roles_give_a_node_nothing_more(reader: MemoryReader) -> None:
    rules = [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]
    reader.put(SYSTEM, CLUSTER_ROLES, {"metadata": {"name": "all"}, "rules": rules})
    binding: Object = {
        "metadata": {"name": "all"},
        "roleRef": {"kind": "ClusterRole", "name": "all"},
        "subjects": [{"kind": "Group", "name": "system:nodes"}, {"kind": "User", "name": A.user}],
    }
    reader.put(SYSTEM, CLUSTER_ROLE_BINDINGS, binding)
    assert not Authorizer(reader).allows(A, access("get", ACME, "secrets", "ns/theirs"))
    assert not Authorizer(reader).allows(A, access("delete", SYSTEM, "tenants", "acme"))


def test_discovery_is_of_ring0_and_of_tenants_that_have_a_pod_there(reader: MemoryReader) -> None:
    authorizer = Authorizer(reader)
    allowed = [authorizer.allows(A, Access("get", tenant, path="/apis")) for tenant in (SYSTEM, ACME, OTHER)]
    assert allowed == [True, True, False]
    assert not authorizer.allows(A, Access("get", SYSTEM, path="/metrics"))


@pytest.mark.parametrize(
    ("identity", "name"),
    [
        (A, "a"),
        (Identity(ACME, "system:node:a", GROUPS), ""),
        (Identity(SYSTEM, "system:node:a", ("system:authenticated",)), ""),
        (Identity(SYSTEM, "system:node:", GROUPS), ""),
        (Identity(SYSTEM, "a", GROUPS), ""),
    ],
)
def test_who_is_a_node(reader: MemoryReader, identity: Identity, name: str) -> None:
    assert node_name(identity) == name
    wanted = access("get", ACME, "secrets", "ns/mine")
    assert Authorizer(reader).allows(identity, wanted) == bool(name)


def test_a_permission_lasts_as_long_as_its_pod(reader: MemoryReader) -> None:
    authorizer = Authorizer(reader)
    accesses = [
        access("get", ACME, "secrets", "ns/mine"),
        access("get", ACME, "persistentvolumes", "mine-volume"),
        access("create", ACME, "serviceaccounts/token", "ns/mine-account"),
        access("update", ACME, "pods/status", "ns/web"),
        access("list", ACME, "services"),
    ]
    assert [authorizer.allows(A, each) for each in accesses] == [True] * 5
    reader.remove(ACME, PODS, "ns", "web")
    assert [authorizer.allows(A, each) for each in accesses] == [False] * 5
    reader.put(ACME, PODS, pod("web", "b", "mine"))
    assert [authorizer.allows(A, each) for each in accesses] == [False] * 5
    assert [authorizer.allows(B, each) for each in accesses] == [True] * 5


def test_a_claims_new_volume_takes_effect_immediately(reader: MemoryReader) -> None:
    authorizer = Authorizer(reader)
    reader.put(ACME, PERSISTENT_VOLUME_CLAIMS, claim("mine-claim", "stray-volume"))
    assert authorizer.allows(A, access("get", ACME, "persistentvolumes", "stray-volume"))
    assert authorizer.allows(A, access("get", ACME, "secrets", "kube-system/stray-key"))
    assert not authorizer.allows(A, access("get", ACME, "persistentvolumes", "mine-volume"))


def test_a_mirror_pod_gives_no_right_to_what_it_names(reader: MemoryReader) -> None:
    mirror = pod("static", "a", "stolen")
    mirror["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "x"}
    reader.put(ACME, PODS, mirror)
    authorizer = Authorizer(reader)
    assert not authorizer.allows(A, access("get", ACME, "secrets", "ns/stolen"))
    assert authorizer.allows(A, access("update", ACME, "pods/status", "ns/static"))


def test_an_error_does_not_reveal_what_exists(reader: MemoryReader) -> None:
    authorizer = Authorizer(reader)
    there, nowhere = (
        authorizer.authorize(A, access("get", ACME, what, name))
        for what, name in (("secrets", "ns/theirs"), ("secrets", "ns/none"))
    )
    assert there == nowhere and "theirs" not in there.reason


def test_only_pods_that_changed_are_walked(monkeypatch: pytest.MonkeyPatch) -> None:
    walked: list[str] = []
    walk = podreferences.references

    def counted(pod: Object) -> frozenset[tuple[str, str, str]]:
        walked.append(pod["metadata"]["name"])
        return walk(pod)

    monkeypatch.setattr(podreferences, "references", counted)
    reader = MemoryReader()
    for name in ("x", "y"):
        reader.put(ACME, PODS, pod(name, "a", name))
    authorizer = NodeAuthorizer(reader)
    for _ in range(3):
        assert authorizer.needs(ACME, "a").references
    assert sorted(walked) == ["x", "y"]
    reader.put(ACME, PODS, pod("y", "a", "z"))
    assert ("secrets", "ns", "z") in authorizer.needs(ACME, "a").references
    assert sorted(walked) == ["x", "y", "y"]


PLACES = st.tuples(st.sampled_from("xyz"), st.sampled_from(["", "a", "b"]), st.sampled_from("st"))


@given(st.lists(PLACES | st.sampled_from("xyz"), max_size=20))
def test_the_incremental_index_equals_a_rebuilt_one(changes: list[tuple[str, str, str] | str]) -> None:
    reader = MemoryReader()
    kept = NodeAuthorizer(reader)
    for change in changes:
        if isinstance(change, tuple):
            name, node, secret = change
            reader.put(ACME, PODS, pod(name, node, secret))
        elif reader.get(ACME, PODS, "ns", change):
            reader.remove(ACME, PODS, "ns", change)
        fresh = NodeAuthorizer(reader)
        for node in ("a", "b"):
            held, found = kept.needs(ACME, node), fresh.needs(ACME, node)
            assert (held.pods.keys(), held.references) == (found.pods.keys(), found.references)
            assert sorted(held.claims) == sorted(found.claims)


def test_the_cache_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nodes, "NEEDS_MAX", 4)
    reader = MemoryReader()
    for number in range(10):
        reader.put(TenantId(f"t{number}"), PODS, pod("p", "a", "s"))
    authorizer = NodeAuthorizer(reader)
    for number in range(20):
        assert bool(authorizer.needs(TenantId(f"t{number}"), "a").pods) == (number < 10)
    assert len(authorizer._needs) == 4

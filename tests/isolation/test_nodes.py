"""Two nodes, two tenants: a node can access what its pods need, and learns nothing about anything else."""

import base64
import http.client
from typing import Any

import pytest
from msgspec import Struct

from alcove.api.objects import Object
from alcove.testing.server import Caller, LocalServer, ServerResponse

CANARY = b"hunter2-canary"


def shows(body: bytes, text: bytes = CANARY) -> bool:
    """Whether the response contains the value, plain or encoded as in Secrets."""
    return text in body or base64.b64encode(text) in body


class World(Struct, frozen=True):
    """Pod `mine` of the tenant `red` is on node a; pods `theirs` of `red` and `blue` are on node b."""

    server: LocalServer
    a: Caller
    b: Caller

    @property
    def system(self) -> Caller:
        return self.server.system

    def make_pod(self, tenant: str, name: str, node: str) -> Object:
        """Creates a pod with one object of every kind that a pod can refer to."""
        base = f"/api/v1/tenants/{tenant}/namespaces/default"
        about = {"metadata": {"name": name}}
        for path, body in (
            ("secrets", {**about, "stringData": {"password": CANARY.decode()}}),
            ("configmaps", {**about, "data": {"key": CANARY.decode()}}),
            ("serviceaccounts", about),
        ):
            assert self.system.post(f"{base}/{path}", body).status in (201, 409)
        volumes = [
            {"name": "s", "secret": {"secretName": name}},
            {"name": "m", "configMap": {"name": name}},
        ]
        containers = [{"name": "c", "image": CANARY.decode()}]
        spec = {"serviceAccountName": name, "nodeName": node, "volumes": volumes, "containers": containers}
        answer = self.system.post(f"{base}/pods", {**about, "spec": spec})
        assert answer.status == 201, answer.body
        return answer.json  # type: ignore[no-any-return]

    def remove_pod(self, tenant: str, name: str) -> None:
        path = f"/api/v1/tenants/{tenant}/namespaces/default/pods/{name}?gracePeriodSeconds=0"
        assert self.system.delete(path).status == 200


@pytest.fixture(scope="module")
def world(server: LocalServer) -> World:
    made = World(server, *(server.as_node(name) for name in ("node-a", "node-b")))
    for tenant in ("red", "blue"):
        server.make_tenant(tenant)
    server.make_namespace("system", "kube-node-lease")
    for caller, name in ((made.a, "node-a"), (made.b, "node-b")):
        assert caller.post("/api/v1/nodes", {"metadata": {"name": name}}).status == 201
        leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
        assert (
            caller.post(leases, {"metadata": {"name": name}, "spec": {"holderIdentity": name}}).status == 201
        )
    made.make_pod("red", "mine", "node-a")
    made.make_pod("red", "theirs", "node-b")
    made.make_pod("blue", "theirs", "node-b")
    return made


def in_default(tenant: str, what: str) -> str:
    return f"/api/v1/tenants/{tenant}/namespaces/default/{what}"


def token_request(pod: Object, **spec: Any) -> Object:
    ref = {"kind": "Pod", "apiVersion": "v1", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
    return {"spec": {"boundObjectRef": ref, **spec}}


def check_refused(answer: ServerResponse) -> None:
    assert answer.status == 403, (answer.status, answer.body)
    assert (answer.json["kind"], answer.json["reason"]) == ("Status", "Forbidden")
    assert not shows(answer.body)


# What a node can do


@pytest.mark.parametrize("what", ["secrets", "configmaps", "pods"])
def test_a_node_reads_what_its_pod_names(world: World, what: str) -> None:
    answer = world.a.get(in_default("red", f"{what}/mine"))
    assert answer.status == 200 and answer.json["metadata"]["name"] == "mine"


@pytest.mark.parametrize("what", ["secrets", "configmaps"])
def test_a_node_lists_and_watches_one_object_by_name(world: World, what: str) -> None:
    path = in_default("red", f"{what}?fieldSelector=metadata.name%3Dmine")
    listed = world.a.get(path)
    assert [item["metadata"]["name"] for item in listed.json["items"]] == ["mine"]
    watched = world.a.get(f"{path}&watch=true&timeoutSeconds=1")
    assert watched.status == 200 and shows(watched.body)


def test_a_node_lists_its_pods_of_all_tenants(world: World) -> None:
    for caller, name, expected in (
        (world.a, "node-a", [("red", "mine")]),
        (world.b, "node-b", [("blue", "theirs"), ("red", "theirs")]),
    ):
        answer = caller.get(f"/api/v1/tenants/all/pods?fieldSelector=spec.nodeName%3D{name}")
        found = [(item["metadata"]["tenant"], item["metadata"]["name"]) for item in answer.json["items"]]
        assert found == expected


def test_a_node_updates_the_status_of_its_pods_and_itself(world: World) -> None:
    status = {"status": {"phase": "Running"}}
    assert world.a.patch(in_default("red", "pods/mine/status"), status).status == 200
    condition = {"type": "Ready", "status": "True"}
    for path, body in (
        ("/api/v1/nodes/node-a/status", {"status": {"conditions": [condition]}}),
        ("/api/v1/nodes/node-a", {"metadata": {"labels": {"kubernetes.io/arch": "amd64"}}}),
        (
            "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/node-a",
            {"spec": {"leaseDurationSeconds": 40}},
        ),
    ):
        answer = world.a.patch(path, body)
        assert answer.status == 200, answer.body
    about = {"kind": "Pod", "name": "mine", "namespace": "default"}
    event = {"metadata": {"name": "e1"}, "involvedObject": about, "source": {"host": "node-a"}}
    answer = world.a.post(in_default("red", "events"), event)
    assert answer.status == 201, answer.body
    assert world.a.get("/api/v1/tenants/red/services").status == 200


def test_a_node_gets_tokens_for_its_pod(world: World) -> None:
    pod = world.a.get(in_default("red", "pods/mine")).json
    answer = world.a.post(in_default("red", "serviceaccounts/mine/token"), token_request(pod))
    assert answer.status == 201, answer.body
    token = answer.json["status"]["token"]
    who = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    user_info = world.server.anonymous(token).post(who, review).json["status"]["userInfo"]
    assert user_info["username"] == "system:serviceaccount:default:mine"


def test_a_node_ends_its_pod(world: World) -> None:
    world.make_pod("red", "brief", "node-a")
    path = in_default("red", "pods/brief")
    check_refused(world.b.delete(f"{path}?gracePeriodSeconds=0"))
    assert world.a.delete(f"{path}?gracePeriodSeconds=0").status == 200
    check_refused(world.a.get(path))


# What it cannot

THEIRS = [(tenant, what) for tenant in ("red", "blue") for what in ("secrets", "configmaps", "pods")]


@pytest.mark.parametrize(("tenant", "what"), THEIRS)
def test_what_another_nodes_pod_names_is_refused_as_if_it_were_not_there(
    world: World, tenant: str, what: str
) -> None:
    for method, body in (("GET", None), ("PUT", {}), ("DELETE", None)):
        there = world.a.request(method, in_default(tenant, f"{what}/theirs"), body)
        nowhere = world.a.request(method, in_default(tenant, f"{what}/nobody"), body)
        check_refused(there)
        assert there.body.replace(b"theirs", b"nobody") == nowhere.body


@pytest.mark.parametrize("tenant", ["red", "blue", "system", "all"])
@pytest.mark.parametrize(
    "what", ["secrets", "configmaps", "pods", "serviceaccounts", "persistentvolumeclaims"]
)
@pytest.mark.parametrize("form", ["/api/v1/tenants/{}/{}", "/tenants/{}/api/v1/{}"])
def test_no_list_and_no_watch_shows_a_tenant(world: World, tenant: str, what: str, form: str) -> None:
    path = form.format(tenant, what)
    for query in (
        "",
        "?watch=true&timeoutSeconds=1",
        "?fieldSelector=metadata.name%3Dtheirs",
        "?fieldSelector=metadata.namespace%3Ddefault",
        "?fieldSelector=spec.nodeName%3Dnode-b",
        "?fieldSelector=spec.nodeName%21%3Dnone",
        "?watch=true&timeoutSeconds=1&fieldSelector=spec.nodeName%3Dnode-b",
    ):
        check_refused(world.a.get(path + query))


@pytest.mark.parametrize(
    "what",
    [
        "/api/v1/tenants/{}/services",
        "/api/v1/tenants/{}/endpoints",
        "/api/v1/tenants/{}/namespaces",
        "/api/v1/tenants/{}/networks",
        "/apis/discovery.k8s.io/v1/tenants/{}/endpointslices",
        "/apis/networking.k8s.io/v1/tenants/{}/networkpolicies",
        "/apis/rbac.authorization.k8s.io/v1/tenants/{}/clusterroles",
        "/tenants/{}/apis",
    ],
)
def test_a_tenant_without_pods_on_the_node_is_as_one_that_does_not_exist(world: World, what: str) -> None:
    there, nowhere = (world.a.get(what.format(tenant)) for tenant in ("blue", "nobody"))
    check_refused(there)
    assert there.body.replace(b"blue", b"nobody") == nowhere.body


@pytest.mark.parametrize("tenant", ["red", "blue"])
def test_another_nodes_pods_are_not_written(world: World, tenant: str) -> None:
    pod = in_default(tenant, "pods/theirs")
    check_refused(world.a.patch(f"{pod}/status", {"status": {"phase": "Failed"}}))
    check_refused(world.a.put(f"{pod}/status", {"metadata": {"name": "theirs"}}))
    check_refused(world.a.delete(pod))
    check_refused(world.a.post(f"{pod}/eviction", {"metadata": {"name": "theirs"}}))
    check_refused(world.a.delete(in_default(tenant, "pods")))
    assert world.b.get(pod).json["status"].get("phase") != "Failed"


def test_its_pods_are_written_only_in_their_status(world: World) -> None:
    pod = in_default("red", "pods/mine")
    check_refused(world.a.patch(pod, {"metadata": {"labels": {"a": "b"}}}))
    check_refused(world.a.patch(f"{pod}/ephemeralcontainers", {"spec": {}}))
    check_refused(world.a.post(f"{pod}/binding", {"target": {"name": "node-a"}}))
    claims = [{"name": "x", "resourceClaimName": "theirs"}]
    check_refused(world.a.patch(f"{pod}/status", {"status": {"resourceClaimStatuses": claims}}))
    world.a.patch(f"{pod}/status", {"metadata": {"labels": {"app": "bank"}}, "status": {"message": "m"}})
    assert "app" not in world.a.get(pod).json["metadata"].get("labels", {})


def test_tokens_are_for_pods_on_the_node_alone(world: World) -> None:
    mine = world.a.get(in_default("red", "pods/mine")).json
    theirs = world.b.get(in_default("red", "pods/theirs")).json
    path = in_default("red", "serviceaccounts/mine/token")
    bodies: list[Object] = [
        {"spec": {}},
        token_request(theirs),
        token_request({"metadata": {"name": "nobody", "uid": "x"}}),
        token_request({"metadata": {"name": "mine", "uid": ""}}),
        token_request({"metadata": {"name": "mine", "uid": "other"}}),
        token_request(mine, audiences=["https://bank"]),
        {"spec": {"boundObjectRef": {"kind": "Secret", "apiVersion": "v1", "name": "mine", "uid": "x"}}},
    ]
    for body in bodies:
        check_refused(world.a.post(path, body))
    for tenant in ("red", "blue"):
        check_refused(world.a.post(in_default(tenant, "serviceaccounts/theirs/token"), token_request(theirs)))
    check_refused(
        world.a.post("/api/v1/namespaces/default/serviceaccounts/default/token", token_request(mine))
    )


def test_another_nodes_objects_are_not_its_own(world: World) -> None:
    leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
    stolen = {"spec": {"holderIdentity": "node-a"}}
    for answer in (
        world.a.get("/api/v1/nodes"),
        world.a.get("/api/v1/nodes/node-b"),
        world.a.patch("/api/v1/nodes/node-b/status", {"status": {}}),
        world.a.patch("/api/v1/nodes/node-b", {"spec": {"unschedulable": True}}),
        world.a.delete("/api/v1/nodes/node-b"),
        world.a.post("/api/v1/nodes", {"metadata": {"name": "node-c"}}),
        world.a.get(leases),
        world.a.get(f"{leases}/node-b"),
        world.a.patch(f"{leases}/node-b", stolen),
        world.a.delete(f"{leases}/node-b"),
        world.a.post(leases, {"metadata": {"name": "node-c"}, **stolen}),
        world.a.post(leases, {"metadata": {"generateName": "node-a"}, **stolen}),
        world.a.post(
            "/apis/storage.k8s.io/v1/csinodes", {"metadata": {"name": "node-b"}, "spec": {"drivers": []}}
        ),
    ):
        check_refused(answer)
    assert world.b.get(f"{leases}/node-b").json["spec"]["holderIdentity"] == "node-b"


@pytest.mark.parametrize(
    "body",
    [
        {"metadata": {"labels": {"node-restriction.kubernetes.io/trusted": "true"}}},
        {"metadata": {"labels": {"team": "red"}}},
        {"metadata": {"labels": {"placed-by-ring0": None}}},
        {"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "x", "uid": "y"}]}},
        {"metadata": {"finalizers": ["example.com/stay"]}},
        {"spec": {"taints": None}},
        {"spec": {"unschedulable": None}},
    ],
)
def test_a_node_cannot_change_its_labels_taints_or_owners(world: World, body: Object) -> None:
    ring0 = {
        "metadata": {"labels": {"placed-by-ring0": "yes"}},
        "spec": {"unschedulable": True, "taints": [{"key": "bad", "effect": "NoSchedule"}]},
    }
    assert world.system.patch("/api/v1/nodes/node-a", ring0).status == 200
    check_refused(world.a.patch("/api/v1/nodes/node-a", body))


def test_new_pods_of_a_node_are_mirrors_in_ring0(world: World) -> None:
    containers = [{"name": "c", "image": "i"}]
    uid = world.a.get("/api/v1/nodes/node-a").json["metadata"]["uid"]
    owner = {"apiVersion": "v1", "kind": "Node", "name": "node-a", "uid": uid, "controller": True}
    metadata: Object = {
        "name": "static-node-a",
        "annotations": {"kubernetes.io/config.mirror": "x"},
        "ownerReferences": [owner],
    }
    spec: Object = {"nodeName": "node-a", "containers": containers}
    secret = {"name": "s", "secret": {"secretName": "theirs"}}
    path = "/api/v1/namespaces/default/pods"
    for wrong in (
        {"metadata": {**metadata, "annotations": {}}, "spec": spec},
        {"metadata": {**metadata, "ownerReferences": []}, "spec": spec},
        {"metadata": {**metadata, "ownerReferences": [{**owner, "uid": "x"}]}, "spec": spec},
        {"metadata": metadata, "spec": {**spec, "nodeName": "node-b"}},
        {"metadata": metadata, "spec": {"containers": containers}},
        {"metadata": metadata, "spec": {**spec, "volumes": [secret]}},
    ):
        check_refused(world.a.post(path, wrong))
    check_refused(world.a.post(in_default("red", "pods"), {"metadata": metadata, "spec": spec}))
    answer = world.a.post(path, {"metadata": metadata, "spec": spec})
    assert answer.status == 201, answer.body
    assert world.a.delete(f"{path}/static-node-a?gracePeriodSeconds=0").status == 200


def test_a_node_writes_events_only_under_its_own_name(world: World) -> None:
    about = {"kind": "Pod", "name": "theirs", "namespace": "default"}
    event = {"metadata": {"name": "e2"}, "involvedObject": about, "source": {"host": "node-b"}}
    check_refused(world.a.post(in_default("red", "events"), event))
    check_refused(world.a.post(in_default("blue", "events"), {**event, "source": {"host": "node-a"}}))
    assert world.b.post(in_default("red", "events"), event).status == 201
    check_refused(world.a.patch(in_default("red", "events/e2"), {"message": "x"}))
    check_refused(world.a.patch(in_default("red", "events/e2"), {"source": {"host": "node-a"}}))
    later = "/apis/events.k8s.io/v1/tenants/red/namespaces/default/events/e2"
    check_refused(world.a.patch(later, {"note": "x"}))


def test_a_node_cannot_impersonate_or_bind_roles(world: World) -> None:
    path = in_default("red", "secrets/theirs")
    check_refused(world.a.get(path, impersonate_user="system:node:node-b", impersonate_group="system:nodes"))
    check_refused(world.a.get(path, impersonate_user="admin", impersonate_group="system:masters"))
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:nodes"}
    binding = {"metadata": {"name": "up"}, "roleRef": reference, "subjects": [subject]}
    check_refused(world.a.post("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding))


def test_a_tenants_user_with_a_nodes_name_is_no_node(world: World) -> None:
    impostor = world.server.as_tenant("red", "system:node:node-a", ("system:nodes",))
    check_refused(impostor.get("/api/v1/namespaces/default/secrets/mine"))
    check_refused(impostor.get("/api/v1/tenants/all/pods?fieldSelector=spec.nodeName%3Dnode-a"))


# A right ends with its pod


def rights(caller: Caller, tenant: str, name: str) -> list[int]:
    paths = [f"secrets/{name}", f"configmaps/{name}", f"pods/{name}"]
    return [caller.get(in_default(tenant, path)).status for path in paths]


def test_a_permission_moves_with_its_pod(world: World) -> None:
    pod = world.make_pod("blue", "moving", "node-a")
    services = "/api/v1/tenants/blue/services"
    tokens = in_default("blue", "serviceaccounts/moving/token")
    assert rights(world.a, "blue", "moving") == [200] * 3 and rights(world.b, "blue", "moving") == [403] * 3
    assert world.a.get(services).status == 200
    assert world.a.post(tokens, token_request(pod)).status == 201

    world.remove_pod("blue", "moving")
    assert rights(world.a, "blue", "moving") == rights(world.b, "blue", "moving") == [403] * 3
    check_refused(world.a.get(services))
    check_refused(world.a.post(tokens, token_request(pod)))

    again = world.make_pod("blue", "moving", "node-b")
    assert rights(world.a, "blue", "moving") == [403] * 3 and rights(world.b, "blue", "moving") == [200] * 3
    for uid in (pod, again):
        check_refused(world.a.post(tokens, token_request(uid)))
    world.remove_pod("blue", "moving")


def test_a_watch_ends_with_the_pod_that_allowed_it(world: World) -> None:
    world.make_pod("blue", "watched", "node-a")
    secret = in_default("blue", "secrets/watched")
    path = in_default("blue", "secrets?watch=true&timeoutSeconds=90&fieldSelector=metadata.name%3Dwatched")
    host, port = world.server.address
    connection = http.client.HTTPSConnection(host, port, context=world.a._tls, timeout=100)
    connection.request("GET", path)
    watched = connection.getresponse()
    assert watched.status == 200 and shows(watched.readline())
    world.system.patch(secret, {"metadata": {"labels": {"seen": "yes"}}})
    assert b'"seen":"yes"' in watched.readline()
    world.remove_pod("blue", "watched")
    world.system.patch(secret, {"stringData": {"password": "never-to-be-seen"}})
    rest = watched.read()
    connection.close()
    assert b'"type":"ERROR"' in rest and b"Forbidden" in rest
    assert not shows(rest, b"never-to-be-seen") and rest.count(b"\n") == 1


def test_a_tenant_sees_addresses_of_its_nodes_only_if_ring0_trusts_it(world: World) -> None:
    path, address = "/api/v1/nodes/node-a", {"type": "InternalIP", "address": "192.0.2.7"}
    assert world.system.patch(f"{path}/status", {"status": {"addresses": [address]}}).status == 200
    red = world.server.as_tenant("red")
    assert "addresses" not in red.get(path).json["status"]
    tenant = "/api/v1/tenants/red"
    assert world.system.patch(tenant, {"spec": {"podSecurity": "privileged"}}).status == 200
    [listed] = [
        each for each in red.get("/api/v1/nodes").json["items"] if each["metadata"]["name"] == "node-a"
    ]
    assert red.get(path).json["status"]["addresses"] == listed["status"]["addresses"] == [address]
    assert "addresses" not in world.server.as_tenant("blue").get("/api/v1/nodes").body.decode()
    assert world.system.patch(tenant, {"spec": {"podSecurity": None}}).status == 200
    assert b"addresses" not in red.get("/api/v1/nodes").body

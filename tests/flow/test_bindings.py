"""What a pod gets when it is bound to a node."""

from alcove.testing.server import Caller, LocalServer

PODS = "/api/v1/namespaces/default/pods"
ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"


def test_a_bound_pod_has_the_labels_of_its_nodes_zone(server: LocalServer, tenant: Caller) -> None:
    labels = {ZONE: "z1", REGION: "r1", "example.com/own": "secret"}
    node = {"metadata": {"name": "zoned", "labels": labels}}
    assert server.system.post("/api/v1/nodes", node).status == 201
    spec = {"containers": [{"name": "c", "image": "i"}]}
    assert tenant.post(PODS, {"metadata": {"name": "p", "labels": {ZONE: "own"}}, "spec": spec}).status == 201
    home = tenant.get("/api/v1/namespaces/default").json["metadata"]["tenant"]
    binding = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "zoned"}}
    path = f"/api/v1/tenants/{home}/namespaces/default/pods/p/binding"
    assert server.system.post(path, binding).status == 201
    assert tenant.get(f"{PODS}/p").json["metadata"]["labels"] == {ZONE: "z1", REGION: "r1"}

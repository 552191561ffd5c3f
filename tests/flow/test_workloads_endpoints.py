"""Services find their pods: of their own tenant, namespace and network, as these come, change and go."""

import json
from collections.abc import Callable

from alcove.api.objects import Object
from alcove.testing.server import Caller, LocalServer, wait_until

BASE = "/api/v1/namespaces/default"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
WEB_SLICES = f"{SLICES}?labelSelector=kubernetes.io%2Fservice-name%3Dweb"


def service(name: str = "web", **spec: object) -> Object:
    ports = [{"port": 80, "targetPort": 8080}]
    return {"metadata": {"name": name}, "spec": {"selector": {"app": "web"}, "ports": ports, **spec}}


def run_pod(caller: Caller, name: str, address: str, *, ready: bool = True, **spec: object) -> None:
    """A pod as a node would leave it."""
    pod = {
        "metadata": {"name": name, "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "image": "i"}], **spec},
    }
    assert caller.post(f"{BASE}/pods", pod).status == 201
    status = {
        "phase": "Running",
        "podIP": address,
        "podIPs": [{"ip": address}],
        "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
    }
    assert caller.patch(f"{BASE}/pods/{name}/status", {"status": status}).status == 200


def ready(caller: Caller, name: str = "web") -> dict[str, bool]:
    """Addresses in the service's slices, and whether they are ready."""
    slices = caller.get(f"{SLICES}?labelSelector=kubernetes.io%2Fservice-name%3D{name}").json["items"]
    entries = [entry for each in slices for entry in each.get("endpoints") or ()]
    return {entry["addresses"][0]: entry["conditions"]["ready"] for entry in entries}


def test_slices_and_endpoints_follow_the_pods(tenant_admin: Caller) -> None:
    assert tenant_admin.post(f"{BASE}/services", service()).status == 201
    run_pod(tenant_admin, "a", "10.9.0.1")
    run_pod(tenant_admin, "b", "10.9.0.2", ready=False)
    wait_until(lambda: ready(tenant_admin) == {"10.9.0.1": True, "10.9.0.2": False})
    subsets = wait_until(lambda: tenant_admin.get(f"{BASE}/endpoints/web").json.get("subsets"))
    assert [each["ip"] for each in subsets[0]["addresses"]] == ["10.9.0.1"]
    assert "10.9.0.1:8080" in tenant_admin.kubectl("get", "endpoints", "web")
    tenant_admin.kubectl("label", "--overwrite", "pod/a", "app=other")
    wait_until(lambda: ready(tenant_admin) == {"10.9.0.2": False})
    tenant_admin.kubectl("delete", "service", "web")
    wait_until(lambda: tenant_admin.get(f"{BASE}/endpoints/web").status == 404)
    wait_until(lambda: not tenant_admin.get(WEB_SLICES).json["items"])


def test_a_service_created_again_without_a_selector_gets_nothing_of_the_one_before(
    tenant_admin: Caller,
) -> None:
    """Its Endpoints were copied to slices if the controllers saw both changes together."""
    assert tenant_admin.post(f"{BASE}/services", service()).status == 201
    run_pod(tenant_admin, "a", "10.9.0.1")
    endpoints = f"{BASE}/endpoints/web"
    wait_until(lambda: tenant_admin.get(endpoints).json.get("subsets") and ready(tenant_admin))
    revision = tenant_admin.get(SLICES).json["metadata"]["resourceVersion"]
    assert tenant_admin.delete(f"{BASE}/services/web").status == 200
    assert tenant_admin.post(f"{BASE}/services", service(selector=None)).status == 201
    wait_until(
        lambda: tenant_admin.get(endpoints).status == 404 and not tenant_admin.get(WEB_SLICES).json["items"]
    )
    since = f"{SLICES}?watch=true&timeoutSeconds=1&resourceVersion={revision}"
    changes = [json.loads(line) for line in tenant_admin.get(since).body.splitlines()]
    assert {each["type"] for each in changes} == {"DELETED"}, "no slice was made of the old Endpoints"
    own = {
        "metadata": {"name": "web"},
        "subsets": [{"addresses": [{"ip": "10.9.0.7"}], "ports": [{"port": 1}]}],
    }
    assert tenant_admin.post(f"{BASE}/endpoints", own).status == 201
    wait_until(lambda: ready(tenant_admin) == {"10.9.0.7": True})


def test_endpoints_stay_when_a_service_loses_its_selector(tenant_admin: Caller) -> None:
    assert tenant_admin.post(f"{BASE}/services", service()).status == 201
    run_pod(tenant_admin, "a", "10.9.0.1")
    wait_until(lambda: tenant_admin.get(f"{BASE}/endpoints/web").json.get("subsets") and ready(tenant_admin))
    assert tenant_admin.patch(f"{BASE}/services/web", {"spec": {"selector": None}}).status == 200
    manager = "endpointslice.kubernetes.io/managed-by"
    wait_until(
        lambda: (
            [each["metadata"]["labels"][manager] for each in tenant_admin.get(WEB_SLICES).json["items"]]
            == ["endpointslicemirroring-controller.k8s.io"]
        )
    )
    assert ready(tenant_admin) == {"10.9.0.1": True}


def test_pods_of_another_network_are_never_behind_a_service(tenant_admin: Caller) -> None:
    networks = "/apis/arktos.futurewei.com/v1/networks"
    for name in ("blue", "red"):
        spec = {"type": "flat"}
        assert tenant_admin.post(networks, {"metadata": {"name": name}, "spec": spec}).status == 201
    assert tenant_admin.post(f"{BASE}/services", service("blue", network="blue")).status == 201
    assert tenant_admin.post(f"{BASE}/services", service("red", network="red")).status == 201
    run_pod(tenant_admin, "b", "10.9.0.1", network="blue")
    run_pod(tenant_admin, "r", "10.9.0.1", network="red")
    run_pod(tenant_admin, "d", "10.9.0.2")
    wait_until(lambda: ready(tenant_admin, "blue") and ready(tenant_admin, "red"))
    for name in ("blue", "red"):
        slices = tenant_admin.get(f"{SLICES}?labelSelector=kubernetes.io%2Fservice-name%3D{name}").json
        entries = [entry for each in slices["items"] for entry in each.get("endpoints") or ()]
        assert [entry["targetRef"]["name"] for entry in entries] == [name[0]]


def test_tenants_with_the_same_names_do_not_share_backends(tenant_admins: Callable[[], Caller]) -> None:
    one, other = tenant_admins(), tenant_admins()
    for caller in (one, other):
        assert caller.post(f"{BASE}/services", service()).status == 201
    run_pod(one, "a", "10.9.0.1")
    wait_until(lambda: ready(one) == {"10.9.0.1": True})
    wait_until(lambda: other.get(WEB_SLICES).json["items"])
    assert ready(other) == {}


def test_endpoints_that_people_keep_are_left_alone(tenant_admin: Caller) -> None:
    own = {
        "metadata": {"name": "outside"},
        "subsets": [{"addresses": [{"ip": "192.0.2.7"}], "ports": [{"port": 80}]}],
    }
    assert tenant_admin.post(f"{BASE}/endpoints", own).status == 201
    spec = {"ports": [{"port": 80}]}
    assert (
        tenant_admin.post(f"{BASE}/services", {"metadata": {"name": "outside"}, "spec": spec}).status == 201
    )
    assert tenant_admin.post(f"{BASE}/services", service()).status == 201
    wait_until(lambda: tenant_admin.get(f"{BASE}/endpoints/web").status == 200)
    assert tenant_admin.get(f"{BASE}/endpoints/outside").json["subsets"][0]["addresses"] == [
        {"ip": "192.0.2.7"}
    ]
    tenant_admin.kubectl("delete", "service", "outside", "web")
    wait_until(lambda: tenant_admin.get(f"{BASE}/endpoints/web").status == 404)
    assert tenant_admin.get(f"{BASE}/endpoints/outside").status == 200


def test_endpoints_kept_by_hand_are_slices_too(tenant_admin: Caller) -> None:
    assert tenant_admin.post(f"{BASE}/services", service("db", selector=None)).status == 201
    subset = {"addresses": [{"ip": "10.9.9.1"}], "ports": [{"port": 5432}]}
    made = tenant_admin.post(f"{BASE}/endpoints", {"metadata": {"name": "db"}, "subsets": [subset]})
    assert made.status == 201
    wait_until(lambda: ready(tenant_admin, "db") == {"10.9.9.1": True})
    subset["addresses"] = [{"ip": "10.9.9.2"}]
    tenant_admin.patch(f"{BASE}/endpoints/db", {"subsets": [subset]})
    wait_until(lambda: ready(tenant_admin, "db") == {"10.9.9.2": True})
    # With a selector, the slices of the pods take their place.
    tenant_admin.patch(f"{BASE}/services/db", {"spec": {"selector": {"app": "web"}}})
    run_pod(tenant_admin, "a", "10.9.0.1")
    wait_until(lambda: ready(tenant_admin, "db") == {"10.9.0.1": True})


def test_hints_to_the_own_zone(control_plane: LocalServer, tenant_admin: Caller) -> None:
    labels = {"topology.kubernetes.io/zone": "east"}
    control_plane.system.post("/api/v1/nodes", {"metadata": {"name": "zoned", "labels": labels}})
    near = service("near", trafficDistribution="PreferClose")
    assert tenant_admin.post(f"{BASE}/services", near).status == 201
    run_pod(tenant_admin, "z", "10.9.0.7", nodeName="zoned")

    def hints() -> list[object]:
        slices = tenant_admin.get(f"{SLICES}?labelSelector=kubernetes.io%2Fservice-name%3Dnear").json
        entries = [entry for each in slices["items"] for entry in each.get("endpoints") or ()]
        return [(entry.get("zone"), entry.get("hints")) for entry in entries]

    wait_until(lambda: hints() == [("east", {"forZones": [{"name": "east"}]})])
    labels["topology.kubernetes.io/zone"] = "west"
    control_plane.system.patch("/api/v1/nodes/zoned", {"metadata": {"labels": labels}})
    wait_until(lambda: hints() == [("west", {"forZones": [{"name": "west"}]})])
    control_plane.system.delete("/api/v1/nodes/zoned")

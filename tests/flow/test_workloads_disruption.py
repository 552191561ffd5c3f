"""Budgets let go what they can spare, and evictions obey them."""

from alcove.api.objects import Object
from alcove.testing.server import Caller, wait_until

BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
PODS = "/api/v1/namespaces/default/pods"
SETS = "/apis/apps/v1/namespaces/default/deployments"
READY = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}


def allowed(caller: Caller) -> int:
    status: Object = caller.get(f"{BUDGETS}/web").json.get("status") or {}
    return int(status.get("disruptionsAllowed", -1))


def test_evictions_are_held_to_the_budget(tenant_admin: Caller) -> None:
    labels = {"app": "web"}
    spec = {"maxUnavailable": 1, "selector": {"matchLabels": labels}}
    assert tenant_admin.post(BUDGETS, {"metadata": {"name": "web"}, "spec": spec}).status == 201
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    sized = {"replicas": 3, "selector": {"matchLabels": labels}, "template": pod}
    assert tenant_admin.post(SETS, {"metadata": {"name": "web"}, "spec": sized}).status == 201
    names = wait_until(lambda: three(tenant_admin))
    assert allowed(tenant_admin) in (-1, 0)
    for name in names:
        tenant_admin.patch(f"{PODS}/{name}/status", {"status": READY})
    wait_until(lambda: allowed(tenant_admin) == 1)
    assert evict(tenant_admin, names[0]) == 201
    assert evict(tenant_admin, names[1]) == 429
    wait_until(lambda: allowed(tenant_admin) == 0)
    (fresh,) = wait_until(lambda: set(three(tenant_admin)) - set(names))
    tenant_admin.patch(f"{PODS}/{fresh}/status", {"status": READY})
    wait_until(lambda: allowed(tenant_admin) == 1)


def three(caller: Caller) -> list[str]:
    names = [each["metadata"]["name"] for each in caller.get(PODS).json["items"]]
    return names if len(names) == 3 else []


def evict(caller: Caller, name: str) -> int:
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    return caller.post(f"{PODS}/{name}/eviction", body).status

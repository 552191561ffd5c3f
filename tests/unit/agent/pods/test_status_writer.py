"""A pod's status reaches the API server, or does not keep the pod from being removed."""

from alcove.agent.podkey import PodKey
from alcove.agent.pods.status_writer import StatusWriter
from alcove.api.ids import TenantId
from alcove.client import kubeconfig
from alcove.client.client import Client
from alcove.client.keys import HOME
from alcove.client.pool import HttpPool
from alcove.testing.server import LocalServer

PODS = "/api/v1/namespaces/default/pods"


async def test_a_pod_that_its_tenant_has_filled_still_has_a_phase(server: LocalServer) -> None:
    tenant = TenantId("filled")
    acme = server.make_tenant(tenant)
    env = [{"name": "A", "value": "x" * 2_900_000}]
    spec = {"nodeName": "n", "containers": [{"name": "main", "image": "x", "env": env}]}
    made = acme.post(PODS, {"metadata": {"name": "full"}, "spec": spec})
    assert made.status == 201, made.body[:500]
    pool = HttpPool(kubeconfig.load(server.admin_kubeconfig))
    try:
        key = PodKey(HOME, tenant, "default", "full", made.json["metadata"]["uid"])
        writer = StatusWriter(key, lambda _plane: Client(pool))
        waiting = {"waiting": {"reason": "ErrImagePull", "message": "x" * 100_000}}
        status = {"name": "main", "image": "x", "imageID": "", "restartCount": 0, "ready": False}
        writer.write({"phase": "Running", "containerStatuses": [{**status, "state": waiting}]})
        await writer.flush()
        found = acme.get(f"{PODS}/full").json["status"]
        assert found["phase"] == "Running" and found["containerStatuses"][0]["state"] == waiting
        waiting["waiting"]["message"] = "x" * 600_000
        writer.write({"phase": "Failed", "containerStatuses": [{**status, "state": waiting}]})
        await writer.flush()
        assert acme.get(f"{PODS}/full").json["status"]["phase"] == "Failed"
        assert not writer.is_deleted
        await writer.delete()
        assert acme.get(f"{PODS}/full").status == 404
    finally:
        await pool.close()

"""Daemon sets of ring0 follow its nodes."""

from alcove.api.objects import Object
from alcove.testing.server import Caller, LocalServer, wait_until

SETS = "/apis/apps/v1/namespaces/default/daemonsets"
PODS = "/api/v1/namespaces/default/pods?labelSelector=app%3Dfollower"
LABELS = {"app": "follower"}


def made() -> Object:
    pod = {
        "metadata": {"labels": LABELS},
        "spec": {"nodeSelector": {"flow": "daemon"}, "containers": [{"name": "c", "image": "v1"}]},
    }
    return {
        "metadata": {"name": "follower"},
        "spec": {"selector": {"matchLabels": LABELS}, "template": pod},
    }


def meant_for(caller: Caller) -> list[str]:
    path = ("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    found = []
    for pod in caller.get(PODS).json["items"]:
        required = pod["spec"]
        for step in path:
            required = required[step]
        found.append(required["nodeSelectorTerms"][0]["matchFields"][0]["values"][0])
    return sorted(found)


def add_node(caller: Caller, name: str, **labels: str) -> None:
    assert caller.post("/api/v1/nodes", {"metadata": {"name": name, "labels": labels}}).status == 201


def test_a_pod_for_every_node_that_wants_one(control_plane: LocalServer) -> None:
    system = control_plane.system
    add_node(system, "daemon-1", flow="daemon")
    add_node(system, "other-1")
    assert system.post(SETS, made()).status == 201
    wait_until(lambda: meant_for(system) == ["daemon-1"])
    add_node(system, "daemon-2", flow="daemon")
    wait_until(lambda: meant_for(system) == ["daemon-1", "daemon-2"])
    wait_until(lambda: system.get(f"{SETS}/follower").json["status"].get("desiredNumberScheduled") == 2)
    before = {pod["metadata"]["name"] for pod in system.get(PODS).json["items"]}
    system.kubectl("set", "image", "ds/follower", "c=v2")
    wait_until(lambda: not before & {pod["metadata"]["name"] for pod in system.get(PODS).json["items"]})
    wait_until(lambda: system.get(f"{SETS}/follower").json["status"].get("updatedNumberScheduled") == 2)
    system.kubectl("label", "node", "daemon-2", "flow-")
    wait_until(lambda: meant_for(system) == ["daemon-1"])
    system.kubectl("delete", "ds", "follower")
    wait_until(lambda: not meant_for(system))
    for name in ("daemon-1", "daemon-2", "other-1"):
        system.kubectl("delete", "node", name)

"""A random, seeded mix of everything that users and failures do to a cluster, for `make soak`.

    soak = Soak(cluster, random.Random(seed))
    soak.phase(30)                      # thirty random steps
    assert faults_after(cluster, soak.known_uids) == []    # `soak_checks.py`

The same seed takes the same decisions as long as the cluster answers alike.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import count

from alcove.api import local_volumes
from alcove.api.objects import Object
from alcove.testing.cluster import RealCluster, pod, tenant_is_ready
from alcove.testing.etcd import EtcdCluster
from alcove.testing.server import wait_until

TENANTS_MAX = 3
PODS_MAX = 5
"""Per tenant."""
NETWORKS = "/apis/arktos.futurewei.com/v1/tenants/{}/networks"
CORE = "/api/v1/tenants/{}/namespaces/default/"
SERVICE_TYPES = ("ClusterIP", "NodePort", "LoadBalancer")
MIZAR = "/apis/mizar.com/v1"
CLAIMS = "persistentvolumeclaims"
CLASSES = "/apis/node.k8s.io/v1"
PLAIN = "plain"
"""The RuntimeClass of containers without a sandbox."""
PLAIN_CLASS: Object = {"metadata": {"name": PLAIN}, "handler": "crun"}
OUTSIDE = "198.51.100.0"
SECONDS_MAX = 60.0
TENANTS_SECONDS_MAX = 180.0
"""Until all tenants are deleted with what they have. Only ring0's own stays."""


class Soak:
    def __init__(self, cluster: RealCluster, chance: random.Random, etcd: EtcdCluster | None = None) -> None:
        """`etcd` is killed, too, if it is given."""
        self.cluster = cluster
        self._etcd = etcd
        self.known_uids: set[str] = set()
        """Uids of all pods that were ever seen."""
        self.steps_taken: list[str] = []
        self._chance = chance
        self._numbers = count(1)
        self._steps: list[tuple[int, Callable[[], None]]] = [
            (2, self._make_tenant), (1, self._delete_tenant), (2, self._make_network), (2, self._delete_network),
            (8, self._make_pod), (4, self._delete_pod), (5, self._make_service), (5, self._change_service),
            (4, self._delete_service), (6, self._make_other), (6, self._delete_other), (2, self._delete_claim),
            (1, self._kill_agent), (1, self._kill_controllers), (1, self._kill_scheduler), (1, self._kill_server),
            (1, self._replace_node), (1 if etcd is not None else 0, self._kill_etcd),
        ]  # fmt: skip

    def prepare(self) -> None:
        """Makes a pool of addresses for load balancers, and the first tenants."""
        vpc = {"metadata": {"name": "outside"}, "spec": {"ip": OUTSIDE, "prefix": 24}}
        self._must("POST", f"{MIZAR}/vpcs", vpc)
        metadata = {"name": "outside", "labels": {"alcove.io/outside": "true"}}
        pool = {"metadata": metadata, "spec": {"ip": OUTSIDE, "prefix": 24, "vpc": "outside"}}
        self._must("POST", f"{MIZAR}/subnets", pool)
        self._must("POST", f"{CLASSES}/runtimeclasses", PLAIN_CLASS)
        self._make_tenant()
        self._make_tenant()

    def phase(self, steps: int) -> None:
        weights, actions = [each[0] for each in self._steps], [each[1] for each in self._steps]
        for action in self._chance.choices(actions, weights, k=steps):
            self.steps_taken.append(action.__name__.lstrip("_"))
            action()
            self._see_pods()

    def delete_everything(self) -> None:
        for tenant in self._tenants():
            self._must("DELETE", f"/api/v1/tenants/{tenant}")
        system = self.cluster.server.system
        wait_until(lambda: len(system.get("/api/v1/tenants").json["items"]) == 1, TENANTS_SECONDS_MAX)
        for path in (f"{MIZAR}/subnets/outside", f"{MIZAR}/vpcs/outside"):
            self._must("DELETE", path)

    # Reading and writing

    def _must(self, method: str, path: str, body: Object | None = None, *also: int) -> Object:
        answer = self.cluster.server.system.request(method, path, body)
        assert answer.status in (200, 201, 202, *also), (method, path, answer.status, answer.body)
        return answer.json  # type: ignore[no-any-return]

    def _names(self, path: str) -> list[str]:
        """Names of the objects that are not being deleted."""
        answer = self.cluster.server.system.get(path)
        found = answer.json["items"] if answer.status == 200 else []  # The tenant may be going.
        return sorted(
            each["metadata"]["name"] for each in found if "deletionTimestamp" not in each["metadata"]
        )

    def _see_pods(self) -> None:
        for each in self.cluster.server.system.get("/api/v1/tenants/all/pods").json.get("items") or ():
            self.known_uids.add(each["metadata"]["uid"])

    def _tenants(self) -> list[str]:
        return [each for each in self._names("/api/v1/tenants") if each != "system"]

    def _tenant(self) -> str:
        tenants = self._tenants()
        if not tenants:
            self._make_tenant()
        return self._chance.choice(tenants or self._tenants())

    def _one_of(self, path: str) -> str:
        """A random object's path; empty if there is none."""
        names = self._names(path)
        return f"{path}/{self._chance.choice(names)}" if names else ""

    def _fresh(self, prefix: str) -> str:
        return f"{prefix}{next(self._numbers)}"

    # Tenants, networks, pods

    def _make_tenant(self) -> None:
        if len(self._tenants()) < TENANTS_MAX:
            name = self._fresh("soak")
            self._must("POST", "/api/v1/tenants", {"metadata": {"name": name}})
            wait_until(lambda: tenant_is_ready(self.cluster.server, name), SECONDS_MAX)
            self._must("POST", f"{CLASSES}/tenants/{name}/runtimeclasses", PLAIN_CLASS)

    def _delete_tenant(self) -> None:
        self._must("DELETE", f"/api/v1/tenants/{self._tenant()}")

    def _make_network(self) -> None:
        spec: Object = self._chance.choice(
            [{"type": "flat"}, {"type": "vpc", "ip": "10.7.0.0", "prefix": 16}, {"type": "mizar"}]
        )
        body: Object = {"metadata": {"name": self._fresh("net")}, "spec": spec}
        self._must("POST", NETWORKS.format(self._tenant()), body)

    def _delete_network(self) -> None:
        """Its pods and services go first, since the network waits for them."""
        tenant = self._tenant()
        names = [each for each in self._names(NETWORKS.format(tenant)) if each != "default"]
        if not names:
            return
        name = self._chance.choice(names)
        for resource in ("pods", "services"):
            path = CORE.format(tenant) + resource
            for each in self.cluster.server.system.get(path).json["items"]:
                if each["spec"].get("network") == name and "deletionTimestamp" not in each["metadata"]:
                    self._must("DELETE", f"{path}/{each['metadata']['name']}", None, 404)
        self._must("DELETE", f"{NETWORKS.format(tenant)}/{name}")

    def _network(self, tenant: str) -> str:
        found = self.cluster.server.system.get(NETWORKS.format(tenant)).json["items"]
        usable = [
            str(each["metadata"]["name"])
            for each in found
            if "deletionTimestamp" not in each["metadata"]
            and (each.get("status") or {}).get("phase") == "Ready"
        ]
        return self._chance.choice(sorted(usable) or ["default"])

    def _make_pod(self) -> None:
        tenant = self._tenant()
        path = CORE.format(tenant) + "pods"
        if len(self._names(path)) >= PODS_MAX:
            return
        body = pod(self._fresh("pod"), network=self._network(tenant), **self._runtime())
        body["metadata"]["labels"] = {"app": "soak"}
        source: Object = self._chance.choice([{}, {"emptyDir": {}}, {"persistentVolumeClaim": {}}])
        if source:
            if "persistentVolumeClaim" in source:
                claim = self._fresh("claim")
                self._must("POST", CORE.format(tenant) + CLAIMS, _claim(claim))
                source = {"persistentVolumeClaim": {"claimName": claim}}
            body["spec"]["volumes"] = [{"name": "scratch", **source}]
            body["spec"]["containers"][0]["volumeMounts"] = [{"name": "scratch", "mountPath": "/scratch"}]
        # Forbidden: the tenant's quota is used up.
        self._must("POST", path, body, 403)

    def _runtime(self) -> Object:
        """Most pods run in plain containers, which are quicker."""
        is_plain = self._chance.random() < 0.8 or not self.cluster.runs_gvisor
        return {"runtimeClassName": PLAIN} if is_plain else {}

    def _delete_pod(self) -> None:
        if path := self._one_of(CORE.format(self._tenant()) + "pods"):
            self._must("DELETE", path, None, 404)

    # Services

    def _make_service(self) -> None:
        tenant = self._tenant()
        spec = {
            "type": self._chance.choice(SERVICE_TYPES),
            "network": self._network(tenant),
            "selector": {"app": "soak"},
            "ports": [{"port": 80}],
            "externalTrafficPolicy": "Local",
        }
        if spec["type"] == "ClusterIP" or self._chance.random() < 0.5:
            del spec["externalTrafficPolicy"]
        body: Object = {"metadata": {"name": self._fresh("svc")}, "spec": spec}
        self._must("POST", CORE.format(tenant) + "services", body)

    def _service(self) -> str:
        path = CORE.format(self._tenant()) + "services"
        names = [each for each in self._names(path) if each.startswith("svc")]
        return f"{path}/{self._chance.choice(names)}" if names else ""

    def _change_service(self) -> None:
        if path := self._service():
            spec = {"type": self._chance.choice(SERVICE_TYPES), "externalTrafficPolicy": None}
            answer = self.cluster.server.system.patch(path, {"spec": spec})
            assert answer.status in (200, 404, 409), answer.body

    def _delete_service(self) -> None:
        if path := self._service():
            self._must("DELETE", path, None, 404)

    # Everything else that tenants write

    def _make_other(self) -> None:
        tenant = self._tenant()
        path, body = self._chance.choice(_others(self._fresh("other")))
        self._must("POST", path.format(tenant), body, 409)

    def _delete_other(self) -> None:
        path, _ = self._chance.choice(_others(""))
        if found := self._one_of(path.format(self._tenant())):
            self._must("DELETE", found, None, 404)

    def _delete_claim(self) -> None:
        tenant = self._tenant()
        if found := self._one_of(CORE.format(tenant) + CLAIMS):
            self._drop_claim(tenant, found.rpartition("/")[2])

    def _drop_claim(self, tenant: str, name: str) -> None:
        """Its pods go first, since the claim waits for them."""
        path = CORE.format(tenant) + "pods"
        for each in self.cluster.server.system.get(path).json["items"]:
            used = [volume.get("persistentVolumeClaim") or {} for volume in each["spec"].get("volumes") or ()]
            if any(claim.get("claimName") == name for claim in used):
                self._must("DELETE", f"{path}/{each['metadata']['name']}", None, 404)
        self._must("DELETE", f"{CORE.format(tenant)}{CLAIMS}/{name}", None, 404)

    # Failures

    def _kill_agent(self) -> None:
        agent = self._chance.choice(sorted(self.cluster.agents.values(), key=lambda each: each.node.name))
        agent.kill()
        agent.start()
        agent.wait()

    def _kill_controllers(self) -> None:
        self.cluster.controllers.kill()
        self.cluster.controllers.start()
        self.cluster.controllers.wait()

    def _kill_scheduler(self) -> None:
        self.cluster.scheduler.kill()
        self.cluster.scheduler.start()
        self.cluster.scheduler.wait()

    def _kill_server(self) -> None:
        self.cluster.server.kill()
        self.cluster.server.start()

    def _kill_etcd(self) -> None:
        if self._etcd is not None:
            self._etcd.members[0].kill()
            self._etcd.start(0)
            system = self.cluster.server.system
            wait_until(lambda: system.get("/api/v1/tenants").status == 200, SECONDS_MAX)

    def _replace_node(self) -> None:
        """A drained node leaves with everything it had, and joins again as a new machine. Claims whose volumes were
        on it are deleted: their data goes with it."""
        node = self._chance.choice(self.cluster.nodes)
        system = self.cluster.server.system
        patch = {"spec": {"unschedulable": True}}
        assert system.patch(f"/api/v1/nodes/{node.name}", patch).status == 200
        volumes = (
            f"/api/v1/tenants/all/persistentvolumes?labelSelector={local_volumes.NODE_LABEL}%3D{node.name}"
        )

        def pods() -> list[Object]:
            found = system.get("/api/v1/tenants/all/pods").json["items"]
            return [each for each in found if each["spec"].get("nodeName") == node.name]

        dropped: set[str] = set()

        def is_drained() -> bool:
            """Again and again: the scheduler may have bound a pod before it saw that the node is cordoned."""
            found = system.get(volumes).json["items"]
            for each in found:
                if each["metadata"]["name"] not in dropped:
                    dropped.add(each["metadata"]["name"])
                    self._drop_claim(each["metadata"]["tenant"], each["spec"]["claimRef"]["name"])
            for each in (remaining := pods()):
                metadata = each["metadata"]
                path = f"/api/v1/tenants/{metadata['tenant']}/namespaces/{metadata['namespace']}/pods"
                if "deletionTimestamp" not in metadata:
                    self._must("DELETE", f"{path}/{metadata['name']}", None, 404)
            return not remaining and not found

        self._see_pods()
        wait_until(is_drained, SECONDS_MAX)
        self.cluster.leave(node)
        node.make()
        self.cluster.join(node)


def _claim(name: str) -> Object:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "16Mi"}}}
    return {"metadata": {"name": name}, "spec": spec}


def _others(name: str) -> list[tuple[str, Object]]:
    """Where other kinds of objects are created, and one of each."""
    metadata = {"name": name}
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
    hook = {
        "name": "hook.example.com", "clientConfig": {"url": "https://192.0.2.1/"}, "rules": [rule],
        "failurePolicy": "Ignore", "timeoutSeconds": 1, "sideEffects": "None", "admissionReviewVersions": ["v1"],
    }  # fmt: skip
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    kind = {
        "group": "soak.example.com", "scope": "Namespaced",
        "names": {"plural": f"{name}s", "singular": name, "kind": name.capitalize()},
        "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
    }  # fmt: skip
    backend = {"service": {"name": "web", "port": {"number": 80}}}
    path = {"path": "/", "pathType": "Prefix", "backend": backend}
    ingress = {"rules": [{"host": f"{name}.example.com", "http": {"paths": [path]}}]}
    template = pod("", runtimeClassName=PLAIN)["spec"]
    labels = {"app": name}
    deployment = {
        "replicas": 1, "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": template},
    }  # fmt: skip
    group = "/apis/{}/v1/tenants/{{}}/"
    networking = group.format("networking.k8s.io") + "namespaces/default/"
    return [
        (CORE + "configmaps", {"metadata": metadata, "data": {"key": "value"}}),
        (CORE + "resourcequotas", {"metadata": metadata, "spec": {"hard": {"pods": "6"}}}),
        (networking + "networkpolicies", {"metadata": metadata, "spec": {"podSelector": {}}}),
        (networking + "ingresses", {"metadata": metadata, "spec": ingress}),
        (group.format("apps") + "namespaces/default/deployments", {"metadata": metadata, "spec": deployment}),
        (
            group.format("apiextensions.k8s.io") + "customresourcedefinitions",
            {"metadata": {"name": f"{name}s.soak.example.com"}, "spec": kind},
        ),
        (
            group.format("admissionregistration.k8s.io") + "validatingwebhookconfigurations",
            {"metadata": metadata, "webhooks": [hook]},
        ),
    ]

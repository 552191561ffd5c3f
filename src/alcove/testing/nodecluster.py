"""A cluster whose nodes are namespaces, without containers: pods are created, bound and attached, and tests
open sockets in their network namespaces.

with node_cluster(directory, 2, "203.0.113.5/24") as cluster:
    cluster.make_tenant("red", {"type": "vpc"})
    pod = cluster.place_pod("red", node=0)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

from alcove.agent.network import Attachment
from alcove.agent.network.attachment import NetworkNotReady
from alcove.agent.podkey import PodKey
from alcove.api.ids import TenantId
from alcove.api.objects import Object
from alcove.client.keys import HOME
from alcove.dataplane import namespaces
from alcove.dns.upstream import Resolver
from alcove.testing.controlplane import LocalControllers
from alcove.testing.nodenetworks import LabNodeNetwork, NodeNetworks
from alcove.testing.nodes import Lab
from alcove.testing.server import LocalServer, wait_until

NUMBERS = count()


class AttachedPod:
    """An attached pod: its namespace and address."""

    def __init__(self, node: LabNodeNetwork, key: PodKey, obj: Object, attachment: Attachment) -> None:
        self.node = node
        self.key = key
        self.obj = obj
        self.attachment = attachment
        name = Path(attachment.namespace_path).name
        found = namespaces.open_named(name)
        assert found is not None
        self.namespace = found

    @property
    def address(self) -> str:
        return self.attachment.addresses[0]

    @property
    def path(self) -> str:
        return f"/api/v1/tenants/{self.key.tenant}/namespaces/{self.key.namespace}/pods/{self.key.name}"


class NodeCluster:
    def __init__(self, server: LocalServer, nodes: NodeNetworks, lab: Lab, world: int) -> None:
        self.server = server
        self.nodes = nodes
        self.lab = lab
        self.world = world

    def must(self, answer: Any, *statuses: int) -> Object:
        assert answer.status in (statuses or (200, 201)), answer.body
        return answer.json  # type: ignore[no-any-return]

    def make_tenant(self, name: str, network: Object | None = None) -> None:
        self.must(self.server.system.post("/api/v1/tenants", {"metadata": {"name": name}}))
        self._await_account(name, "default")
        if network is not None:
            self.make_network(name, "own", network)

    def make_namespace(self, tenant: str, name: str, labels: Mapping[str, str]) -> None:
        obj = {"metadata": {"name": name, "labels": dict(labels)}}
        self.must(self.server.system.post(f"/api/v1/tenants/{tenant}/namespaces", obj))
        self._await_account(tenant, name)

    def _await_account(self, tenant: str, namespace: str) -> None:
        """Pods need the namespace's default service account."""
        account = f"/api/v1/tenants/{tenant}/namespaces/{namespace}/serviceaccounts/default"
        wait_until(lambda: self.server.system.get(account).status == 200)

    def make_network(self, tenant: str, name: str, spec: Object) -> None:
        path = f"/apis/arktos.futurewei.com/v1/tenants/{tenant}/networks"
        self.must(self.server.system.post(path, {"metadata": {"name": name}, "spec": spec}))
        self.ready(tenant, name)

    def ready(self, tenant: str, name: str) -> None:
        path = f"/apis/arktos.futurewei.com/v1/tenants/{tenant}/networks/{name}"
        wait_until(lambda: self.server.system.get(path).json.get("status", {}).get("phase") == "Ready")

    def place_pod(self, tenant: str, node: int, network: str = "own", **more: Any) -> AttachedPod:
        """Creates a pod on the node and attaches it."""
        where = self.nodes[node]
        key, obj = self.make_pod(tenant, where, network, **more)

        def attached() -> Attachment | None:
            # As an agent does it: an address that takes long is waited for again.
            with suppress(NetworkNotReady):
                return where.call(where.network.attach(key, obj))
            return None

        pod = AttachedPod(where, key, obj, wait_until(attached))
        self.set_ready(pod)
        return pod

    def make_pod(
        self,
        tenant: str,
        where: LabNodeNetwork,
        network: str = "own",
        *,
        namespace: str = "default",
        labels: Mapping[str, str] | None = None,
        **more: Any,
    ) -> tuple[PodKey, Object]:
        name = f"pod-{next(NUMBERS)}"
        path = f"/api/v1/tenants/{tenant}/namespaces/{namespace}/pods"
        containers = [{"name": "c", "image": "none"}]
        metadata = {"name": name, "labels": dict(labels or {})}
        spec = {"network": network, "nodeName": where.name, "containers": containers, **more}
        obj = self.must(self.server.system.post(path, {"metadata": metadata, "spec": spec}))
        return PodKey(HOME, TenantId(tenant), namespace, name, obj["metadata"]["uid"]), obj

    def set_ready(self, pod: AttachedPod, *, ready: bool = True) -> None:
        """Writes the pod's status as the agent would once its containers run."""
        condition = {"type": "Ready", "status": str(ready)}
        addresses = {"podIP": pod.address, "podIPs": [{"ip": pod.address}]}
        path = f"{pod.path}/status"
        status = {"phase": "Running", "conditions": [condition], **addresses}
        self.must(self.server.system.patch(path, {"status": status}))

    def remove_pod(self, pod: AttachedPod) -> None:
        pod.node.call(pod.node.network.detach(pod.key))
        self.must(self.server.system.delete(f"{pod.path}?gracePeriodSeconds=0"))

    def make_service(self, tenant: str, name: str, **spec: Any) -> str:
        """Waits for the address, and returns it."""
        path = f"/api/v1/tenants/{tenant}/namespaces/default/services"
        spec = {"network": "own", "ports": [{"port": 80, "targetPort": 8080}], **spec}
        self.must(self.server.system.post(path, {"metadata": {"name": name}, "spec": spec}))
        found = wait_until(lambda: self.server.system.get(f"{path}/{name}").json["spec"].get("clusterIP"))
        return str(found)

    def service_address(self, tenant: str, namespace: str, name: str) -> str:
        path = f"/api/v1/tenants/{tenant}/namespaces/{namespace}/services/{name}"
        return str(self.must(self.server.system.get(path))["spec"]["clusterIP"])


@contextmanager
def node_cluster(
    directory: Path, nodes: int, world: str, resolvers: tuple[Resolver, ...] = ()
) -> Iterator[NodeCluster]:
    """`world` is the address of an external host on the underlay."""
    with ExitStack() as stack:
        server = stack.enter_context(LocalServer(directory / "server"))
        stack.enter_context(LocalControllers(server, directory))
        lab = stack.enter_context(Lab(nodes, started=False))
        networks = stack.enter_context(NodeNetworks(server, directory, lab, resolvers))
        yield NodeCluster(server, networks, lab, lab.add_host("world", world))

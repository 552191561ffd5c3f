"""Networks on nodes: a real API server, the controllers, two nodes' data planes and what drives them.

Two tenants have the same range and the same addresses. What is inside a network talks, nothing across does.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from alcove.agent.network import Attachment
from alcove.agent.podkey import PodKey
from alcove.api.ids import TenantId
from alcove.api.objects import Object
from alcove.client.keys import HOME
from alcove.dataplane import namespaces
from alcove.testing.controlplane import LocalControllers
from alcove.testing.nodenetworks import NodeNetwork, NodeNetworks
from alcove.testing.nodes import Lab, lacking
from alcove.testing.probes import IMPATIENT, ping, tcp_server, tcp_talks
from alcove.testing.server import LocalServer, wait_until

WHY = lacking()
pytestmark = [pytest.mark.root, pytest.mark.skipif(bool(WHY), reason=WHY)]

NUMBERS = count()
TENANTS = ("red", "blue")
RANGE = {"type": "vpc", "ip": "10.7.0.0", "prefix": 16}


class Pod:
    """A pod that is attached: a namespace and its address."""

    def __init__(self, node: NodeNetwork, key: PodKey, obj: Object, attachment: Attachment) -> None:
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


class Cluster:
    def __init__(self, server: LocalServer, nodes: NodeNetworks) -> None:
        self.server = server
        self.nodes = nodes

    def must(self, answer: Any, *statuses: int) -> Object:
        assert answer.status in (statuses or (200, 201)), answer.body
        return answer.json  # type: ignore[no-any-return]

    def make_tenant(self, name: str, network: Object | None = None) -> None:
        self.must(self.server.system.post("/api/v1/tenants", {"metadata": {"name": name}}))
        account = f"/api/v1/tenants/{name}/namespaces/default/serviceaccounts/default"
        wait_until(lambda: self.server.system.get(account).status == 200)
        if network is not None:
            self.make_network(name, "own", network)

    def make_network(self, tenant: str, name: str, spec: Object) -> None:
        path = f"/apis/arktos.futurewei.com/v1/tenants/{tenant}/networks"
        self.must(self.server.system.post(path, {"metadata": {"name": name}, "spec": spec}))
        self.ready(tenant, name)

    def ready(self, tenant: str, name: str) -> None:
        path = f"/apis/arktos.futurewei.com/v1/tenants/{tenant}/networks/{name}"
        wait_until(lambda: self.server.system.get(path).json.get("status", {}).get("phase") == "Ready")

    def place_pod(self, tenant: str, node: int, network: str = "own", **metadata: Any) -> Pod:
        """Makes a pod on the node and attaches it."""
        where = self.nodes[node]
        name = f"pod-{next(NUMBERS)}"
        path = f"/api/v1/tenants/{tenant}/namespaces/default/pods"
        spec = {"network": network, "nodeName": where.name, "containers": [{"name": "c", "image": "none"}]}
        obj = self.must(self.server.system.post(path, {"metadata": {"name": name, **metadata}, "spec": spec}))
        key = PodKey(HOME, TenantId(tenant), "default", name, obj["metadata"]["uid"])
        return Pod(where, key, obj, where.call(where.network.attach(key, obj)))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    directory = tmp_path_factory.mktemp("node-networks")
    with ExitStack() as stack:
        server = stack.enter_context(LocalServer(directory / "server"))
        stack.enter_context(LocalControllers(server, directory))
        lab = stack.enter_context(Lab(2, started=False))
        nodes = stack.enter_context(NodeNetworks(server, directory, lab))
        made = Cluster(server, nodes)
        for tenant in TENANTS:
            made.make_tenant(tenant, RANGE)
        yield made


@pytest.fixture(scope="module")
def pods(cluster: Cluster) -> dict[str, list[Pod]]:
    """Of each tenant two on the first node and one on the second."""
    return {tenant: [cluster.place_pod(tenant, node) for node in (0, 0, 1)] for tenant in TENANTS}


def test_inside_everything_talks_and_across_nothing(pods: dict[str, list[Pod]]) -> None:
    red, blue = pods["red"], pods["blue"]
    assert [pod.address for pod in red] == [pod.address for pod in blue], "the same addresses in both"
    for own in (red, blue):
        for source in own:
            for target in own:
                if source is not target:
                    with tcp_server(target.namespace, target.address, 8080) as server:
                        assert tcp_talks(source.namespace, target.address, 8080, server)
                    assert ping(source.namespace, target.address)
    with tcp_server(blue[0].namespace, blue[0].address, 9090) as server:
        assert not tcp_talks(red[1].namespace, blue[0].address, 9090, server, timeout=IMPATIENT)

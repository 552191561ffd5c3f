"""A real API server, the controllers, three nodes' data planes and what drives them; two tenants that have the same range.

The third node has no pods. Needs root and BPF; else skipped.
"""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest
from dnslib import DNSError, DNSRecord

from alcove.dns.upstream import Resolver
from alcove.testing.nodecluster import AttachedPod, NodeCluster, node_cluster
from alcove.testing.nodes import lacking
from alcove.testing.podprobes import TENANTS, WORLD
from alcove.testing.resolver import one_address

WHY = lacking()
RANGE = {"type": "vpc", "ip": "10.7.0.0", "prefix": 16}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/flow/nodes" in str(item.path):
            item.add_marker(pytest.mark.root)
            if WHY:
                item.add_marker(pytest.mark.skip(reason=WHY))


@contextmanager
def resolver() -> Iterator[Resolver]:
    """The world's DNS: one address for every name."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))

        def serve() -> None:
            while True:
                question, peer = sock.recvfrom(4096)
                if not question:
                    return
                with suppress(DNSError):  # Tests send malformed questions as well.
                    for answer in one_address(DNSRecord.parse(question)):
                        sock.sendto(answer, peer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield Resolver(*sock.getsockname())
        sock.sendto(b"", sock.getsockname())
        thread.join()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeCluster]:
    with (
        resolver() as result,
        node_cluster(tmp_path_factory.mktemp("node-networks"), 3, f"{WORLD}/24", (result,)) as made,
    ):
        for tenant in TENANTS:
            made.make_tenant(tenant, RANGE)
        yield made


@pytest.fixture(scope="module")
def pods(cluster: NodeCluster) -> dict[str, list[AttachedPod]]:
    """Of each tenant two on the first node and one on the second."""
    return {tenant: [cluster.place_pod(tenant, node) for node in (0, 0, 1)] for tenant in TENANTS}

"""A node's object lookup on a real API server, and pods to use it for.

async with looking_up(server) as lookup:
    key, pod = make_pod(server, tenant, {"volumes": [...]})
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count

from alcove.agent.lookup import ObjectLookup
from alcove.agent.podkey import PodKey
from alcove.api.ids import TenantId
from alcove.api.objects import Object
from alcove.client import kubeconfig
from alcove.client.keys import HOME, ObjectKey
from alcove.client.planes import Planes
from alcove.client.pool import HttpPool
from alcove.testing.server import LocalServer

_NUMBERS = count(1)


@asynccontextmanager
async def looking_up(
    server: LocalServer, seconds: float = 0.0, node: str = ""
) -> AsyncIterator[ObjectLookup]:
    """Caches nothing unless a time is given. With the rights of a node, if one is named."""
    path = server.as_node(node).kubeconfig if node else server.admin_kubeconfig
    pool = HttpPool(kubeconfig.load(path))
    async with Planes() as planes:
        planes.join(HOME, pool)
        try:
            yield ObjectLookup(planes, seconds=seconds)
        finally:
            await pool.close()


def in_default(tenant: str, what: str) -> str:
    return f"/api/v1/tenants/{tenant}/namespaces/default/{what}"


def make_pod(
    server: LocalServer, tenant: str, spec: Object, metadata: Object | None = None
) -> tuple[PodKey, Object]:
    """A pod in the tenant's namespace `default`, with its own service account."""
    name = f"pod-{next(_NUMBERS)}"
    assert server.system.post(in_default(tenant, "serviceaccounts"), named(name)).status == 201
    container = {"name": "main", "image": "alcove/busybox"}
    whole: Object = {
        "metadata": {"name": name, **(metadata or {})},
        "spec": {
            "serviceAccountName": name,
            "containers": [container],
            "automountServiceAccountToken": False,
            **spec,
        },
    }
    answer = server.system.post(in_default(tenant, "pods"), whole)
    assert answer.status == 201, answer.body
    pod: Object = answer.json
    return PodKey.of(ObjectKey(HOME, TenantId(tenant), "default", name), pod), pod


def named(name: str) -> Object:
    return {"metadata": {"name": name}}

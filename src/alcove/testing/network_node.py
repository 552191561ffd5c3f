"""A node with one network of a tenant, whose mirrors are filled by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from ipaddress import ip_interface, ip_network

from alcove.agent.network.policy_rules import PolicyRules
from alcove.agent.network.ring0_objects import NetworkBacking
from alcove.agent.network.tenant_view import TenantNetworkView
from alcove.agent.network.tenant_work import TenantWork
from alcove.agent.network.view import NetworkView
from alcove.agent.podkey import PodKey
from alcove.api.ids import SYSTEM, Revision, TenantId
from alcove.api.kinds.mizar import OWNER_LABEL
from alcove.api.objects import Object
from alcove.client.keys import HOME, TenantKey
from alcove.client.plane_mirror import PlaneMirror
from alcove.client.planes import Planes
from alcove.dataplane.model import Subnet, TrafficProfile, Vpc
from alcove.dns.record_budget import NODE_RECORDS_MAX, TENANT_RECORDS_MAX, RecordBudget
from alcove.network.owners import TenantNetworkId

ACME = TenantId("acme")
PREFIX = ip_network("10.0.0.0/16")
BACKING = NetworkBacking(
    TenantNetworkId(ACME, "default"),
    Vpc(7, (PREFIX,)),
    (Subnet(7, PREFIX),),
    (ip_interface("10.0.0.1/16"),),
)


class NetworkNode:
    """A node with one network, whose mirrors are filled by hand."""

    def __init__(
        self,
        planes: Planes,
        records_max: int = NODE_RECORDS_MAX,
        tenant_max: int = TENANT_RECORDS_MAX,
    ) -> None:
        self._planes = planes
        self._revision = 0
        self._parts: dict[str, PlaneMirror] = {}
        self._objects: dict[str, dict[tuple[str, str], Object]] = {}
        self.changes = 0
        self._progress = asyncio.Event()
        self.tenant = TenantNetworkView(planes, TenantKey(HOME, ACME), self._changed)
        self.work = TenantWork()
        self.budget = RecordBudget(records_max, tenant_max)
        self.view = NetworkView(
            planes,
            self.tenant,
            BACKING,
            "cluster.local",
            lambda _: (),
            self._changed,
            self.work,
            self.budget,
        )
        self._fill()
        self.put("namespaces", "default", "")

    def _changed(self) -> None:
        self.changes += 1
        self._progress.set()

    def _fill(self) -> None:
        self.tenant.watch_peers()
        present = {mirror.selection.resource.resource: mirror for mirror in self._planes.mirrors()}
        for resource in set(self._parts) - set(present):
            del self._parts[resource]
        for resource, mirror in present.items():
            if resource not in self._parts:
                part = self._parts[resource] = mirror.add_plane(HOME)
                for obj in self._objects.get(resource, {}).values():
                    part.put(obj, Revision(self._revision))
                part.synced.set()

    def put(self, resource: str, name: str, namespace: str, tenant: TenantId = ACME, **more: Object) -> None:
        self._revision += 1
        metadata = {"tenant": tenant, "name": name, **({"namespace": namespace} if namespace else {})}
        metadata |= more.pop("metadata", {})
        obj = self._objects.setdefault(resource, {})[namespace, name] = {"metadata": metadata, **more}
        if resource in self._parts:
            self._parts[resource].put(obj, Revision(self._revision))
        self._fill()

    def put_pod(self, number: int, app: str, status: str = "") -> PodKey:
        key = PodKey(HOME, ACME, "default", f"p{number}", f"uid-{number}")
        metadata = {"uid": key.uid, "labels": {"app": app}, "annotations": {"status": status}}
        self.put("pods", key.name, "default", metadata=metadata)
        return key

    def put_endpoint(self, number: int, address: int) -> None:
        spec = {
            "type": "simple",
            "vni": 7,
            "ip": f"10.0.{1 + address // 250}.{address % 250}",
            "droplet": "n",
            "pod": f"acme/default/p{number}",
        }
        metadata = {"labels": {OWNER_LABEL: f"uid-{number}"}}
        self.put("endpoints", f"e{number}", "", SYSTEM, metadata=metadata, spec=spec)

    def remove(self, resource: str, name: str, namespace: str) -> None:
        self._revision += 1
        obj = self._objects.get(resource, {}).pop((namespace, name), None)
        if obj is not None and resource in self._parts:
            self._parts[resource].remove(obj, Revision(self._revision))
        self._fill()

    def rules(self, key: PodKey) -> set[str]:
        """The addresses that may connect to the pod."""
        return _addresses(self.view.rules.for_pod(BACKING, key)[0])

    def rules_anew(self, key: PodKey) -> set[str]:
        rules = PolicyRules(self.tenant, self.view.allocations, self.work)
        return _addresses(rules.for_pod(BACKING, key)[0])

    async def computed(self, keys: Iterable[PodKey]) -> None:
        """Returns when all rules are computed, as the passes of the reconciler ask for them."""
        async with asyncio.timeout(60):
            while [key for key in keys if not self._is_computed(key)]:
                await self.progress()

    async def progress(self) -> None:
        """Returns when something has changed or was computed."""
        await self._progress.wait()
        self._progress.clear()

    def _is_computed(self, key: PodKey) -> bool:
        self.view.rules.for_pod(BACKING, key)
        return self.view.rules.is_current(key)

    def close(self) -> None:
        self.view.close()
        self.tenant.close()
        self.work.close()


def _addresses(profile: TrafficProfile | None) -> set[str]:
    blocks = [block for rule in (profile.rules if profile else ()) for block in rule.peers or ()]
    return {str(block.prefix) for block in blocks}

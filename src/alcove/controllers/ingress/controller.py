"""The Ingress controller: assigns each host name to one tenant, and writes the serving addresses to the
status.

An Ingress is served by the nodes that run a pod in its network; their addresses are its status.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from alcove.api import objects
from alcove.api.ids import SYSTEM, TenantId
from alcove.api.kinds.core.networks import network_of
from alcove.api.objects import Object
from alcove.client.changes import ChangeType, ObjectChange
from alcove.client.keys import HOME, ObjectKey, PlaneId
from alcove.client.resources import INGRESS_CLASSES, INGRESSES, PODS, TENANTS
from alcove.controllers.controller import DONE, Controller, ControllerContext, Result
from alcove.controllers.ingress.host_index import HostHolders, IngressIndex
from alcove.network.ingress import ingress_spec as reading
from alcove.network.ingress.claims import HOSTS_ANNOTATION, HOSTS_MAX, entitled, hosts_of, noted, star_of
from alcove.network.ingress.ingress_spec import ANY, DesiredIngress

ADDRESSES_MAX = 16
TAKEN, UNNAMED = "HostTaken", "HostMissing"
_FINISHED = ("Succeeded", "Failed")


class IngressController(Controller):
    name = "ingress"
    resource = INGRESSES

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._index, self._holders = IngressIndex(), HostHolders()
        self._claiming = asyncio.Lock()
        self._ingresses = self.mirror(INGRESSES, {"network": _by_network})
        self._classes = self.mirror(INGRESS_CLASSES)
        self._pods = self.mirror(PODS, {"serving": _serving})
        self._nodes = self.nodes()
        self._tenants = self.mirror(TENANTS, tenant=SYSTEM)
        self.on(self._classes, self._of_class)
        self.on(self._ingresses, self._of_ingress)
        self.on(self._pods, self._of_pod)
        self.on(self._nodes, self._of_node)
        self.on(self._tenants, self._of_tenant)

    # Keys to enqueue

    def _of_class(self, change: ObjectChange) -> Iterable[ObjectKey]:
        keys = self._ingresses.keys(change.key.plane, change.key.tenant)
        for key in keys:
            self._index_ingress(key, self._ingresses.get(key))
        return keys

    def _of_ingress(self, change: ObjectChange) -> Iterable[ObjectKey]:
        self._index_ingress(change.key, change.obj if change.kind is not ChangeType.DELETED else None)
        return (change.key,)

    def _index_ingress(self, key: ObjectKey, ingress: Object | None) -> None:
        is_served = ingress is not None and "deletionTimestamp" not in ingress["metadata"]
        if is_served and ingress is not None:
            classes = reading.served_classes(self._classes.list(key.plane, key.tenant))
            is_served = reading.class_of(ingress) in classes
        self._index.put(key, reading.read(ingress) if is_served and ingress is not None else None)

    def _of_pod(self, change: ObjectChange) -> Iterable[ObjectKey]:
        key = change.key
        before, now = (set(_network_nodes(obj)) for obj in _before_and_now(change))
        return [
            ingress
            for network in {network for network, _node in before ^ now}
            for ingress in self._ingresses.find_keys("network", key.plane, key.tenant, network)
        ]

    def _of_node(self, change: ObjectChange) -> Iterable[ObjectKey]:
        before, now = (_address_of(obj) if obj is not None else "" for obj in _before_and_now(change))
        return list(self._ingresses.everything()) if before and now and before != now else ()

    def _of_tenant(self, change: ObjectChange) -> Iterable[ObjectKey]:
        """Ingresses that request a host name whose holder has changed."""
        is_deleted = change.kind is ChangeType.DELETED
        hosts: frozenset[str] = frozenset() if is_deleted else hosts_of(change.obj)
        changed = self._holders.put(TenantId(change.key.name), hosts)
        return [key for host in changed for key in self._index.wanting(host)]

    # Reconciling

    async def reconcile(self, key: ObjectKey) -> Result:
        await self._claim(key)
        desired, ingress = self._index.get(key), self._ingresses.get(key)
        if desired is None or ingress is None:
            return DONE
        served = self._report(key, ingress, desired, self._holders)
        addresses = self._addresses(key.plane, key.tenant, desired.network) if served else []
        await self._write_status(key, ingress, addresses)
        return DONE

    async def _claim(self, key: ObjectKey) -> None:
        """Records which host names the tenant holds. Serialized, because two tenants may request one name."""
        async with self._claiming:
            await self._tenants.caught_up(HOME, SYSTEM)
            desired, held, held_by_tenant = (
                self._index.get(key),
                self._holders.by_host,
                self._holders.of(key.tenant),
            )
            retained = frozenset(host for host in held_by_tenant if self._index.wants(key.tenant_key, host))
            new = [host for host in desired.hosts if host not in retained] if desired is not None else []
            claims = {name: self._index.claims(name) for name in {*new, *map(star_of, new)}}
            won = entitled(key.tenant, new, held, claims, room=HOSTS_MAX - len(retained))
            for loser in {held[host] for host in won if held.get(host) not in (None, key.tenant)}:
                await self._record_hosts(loser, self._holders.of(loser) - won)
            await self._record_hosts(key.tenant, retained | won)
            # Wait until the mirror has the writes, before the lock is released.
            await self._tenants.caught_up(HOME, SYSTEM)

    async def _record_hosts(self, tenant: TenantId, hosts: frozenset[str]) -> None:
        tenant_object = self._tenants.get(ObjectKey(HOME, SYSTEM, "", tenant))
        if tenant_object is None or hosts_of(tenant_object) == hosts:
            return
        patch = {
            "metadata": {
                "resourceVersion": tenant_object["metadata"]["resourceVersion"],
                "annotations": {HOSTS_ANNOTATION: noted(hosts) or None},
            }
        }
        await self.context.planes.client(HOME).patch(SYSTEM, TENANTS, tenant, patch)

    def _report(self, key: ObjectKey, ingress: Object, desired: DesiredIngress, holders: HostHolders) -> bool:
        """Records events for rules that are not served; returns whether any rule is served."""
        regarding = {**ingress, "apiVersion": INGRESSES.api_version, "kind": INGRESSES.kind}
        unserved = [host for host in desired.hosts if holders.by_host.get(host) != key.tenant]
        for host in unserved:
            self.events.warning(
                key.plane, regarding, TAKEN, f'host "{host}" is not served: it is claimed by another tenant'
            )
        has_hostless_rules = desired.fallback is not None or any(rule.host == ANY for rule in desired.rules)
        has_hosts = bool(holders.of(key.tenant))
        if has_hostless_rules and not has_hosts and key.tenant != SYSTEM:
            message = "rules without a host are served only for the tenant's hosts, and the tenant has none"
            self.events.warning(key.plane, regarding, UNNAMED, message)
        return len(unserved) < len(desired.hosts) or (
            has_hostless_rules and (has_hosts or key.tenant == SYSTEM)
        )

    def _addresses(self, plane: PlaneId, tenant: TenantId, network: str) -> list[str]:
        """The addresses of the nodes that run a pod in the network."""
        pods = self._pods.find("serving", plane, tenant, network)
        nodes = {node for pod in pods for _network, node in _network_nodes(pod)}
        existing = (self._nodes.get(ObjectKey(HOME, SYSTEM, "", name)) for name in sorted(nodes))
        addresses = [_address_of(node) for node in existing if node is not None]
        return [address for address in dict.fromkeys(addresses) if address][:ADDRESSES_MAX]

    async def _write_status(self, key: ObjectKey, ingress: Object, addresses: list[str]) -> None:
        ports = [{"port": 80, "protocol": "TCP"}]
        if objects.get(ingress, "spec", "tls"):
            ports.append({"port": 443, "protocol": "TCP"})
        desired = [{"ip": address, "ports": ports} for address in addresses]
        if (objects.get(ingress, "status", "loadBalancer", "ingress") or []) != desired:
            ingress["status"] = {"loadBalancer": {"ingress": desired} if desired else {}}
            await self.client(key).update(key.tenant, INGRESSES, ingress, subresource="status")


def _by_network(ingress: Object) -> Iterable[str]:
    return (network_of(ingress),)


def _before_and_now(change: ObjectChange) -> tuple[Object | None, Object | None]:
    match change.kind:
        case ChangeType.ADDED:
            return None, change.obj
        case ChangeType.UPDATED:
            return change.old, change.obj
        case ChangeType.DELETED:
            return change.obj, None


def _network_nodes(pod: Object | None) -> Iterable[tuple[str, str]]:
    """The pod's network and node, if its presence makes the node serve the network."""
    if (
        pod is None
        or objects.get(pod, "status", "phase") in _FINISHED
        or objects.get(pod, "spec", "hostNetwork")
    ):
        return ()
    node = objects.get(pod, "spec", "nodeName")
    return ((network_of(pod), str(node)),) if node else ()


def _serving(pod: Object) -> Iterable[str]:
    """An index: pods by the network that their node serves."""
    return [network for network, _node in _network_nodes(pod)]


def _address_of(node: Object) -> str:
    """The node's external address, or else its internal one."""
    addresses = {
        each.get("type"): each.get("address", "") for each in objects.get(node, "status", "addresses") or ()
    }
    return str(addresses.get("ExternalIP") or addresses.get("InternalIP") or "")

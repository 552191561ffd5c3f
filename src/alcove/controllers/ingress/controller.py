"""The Ingress controller: writes the serving addresses to the status, and records events for host names that
are not served.

An Ingress is served by the nodes that run a pod in its network; their addresses are its status.
"""

from __future__ import annotations

from collections.abc import Iterable

from alcove.api import objects
from alcove.api.ids import SYSTEM, TenantId
from alcove.api.kinds.core.networks import network_of
from alcove.api.objects import Object
from alcove.client.changes import ChangeType, ObjectChange
from alcove.client.keys import HOME, ObjectKey, PlaneId
from alcove.client.resources import INGRESS_CLASSES, INGRESSES, PODS, TENANTS
from alcove.controllers.controller import DONE, Controller, ControllerContext, Result
from alcove.network.ingress import ingress_spec as reading
from alcove.network.ingress.domains import DomainGrants
from alcove.network.ingress.ingress_spec import ANY, DesiredIngress

ADDRESSES_MAX = 16
UNGRANTED, SHADOWED = "HostNotGranted", "DomainShadowed"
_FINISHED = ("Succeeded", "Failed")


class IngressController(Controller):
    name = "ingress"
    resource = INGRESSES

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._grants = DomainGrants()
        self._ingresses = self.mirror(INGRESSES, {"network": _by_network})
        self._classes = self.mirror(INGRESS_CLASSES)
        self._pods = self.mirror(PODS, {"serving": _serving})
        self._nodes = self.nodes()
        self._tenants = self.mirror(TENANTS, tenant=SYSTEM, only=HOME)
        self.on(self._ingresses)
        self.on(self._classes, self._of_class)
        self.on(self._pods, self._of_pod)
        self.on(self._nodes, self._of_node)
        self.on(self._tenants, self._of_tenant)

    # Keys to enqueue

    def _of_class(self, change: ObjectChange) -> Iterable[ObjectKey]:
        return self._ingresses.keys(change.key.plane, change.key.tenant)

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
        """Ingresses of the tenants that may have gained or lost a host name."""
        if change.kind is ChangeType.DELETED:
            affected = self._grants.remove(TenantId(change.key.name))
        else:
            affected = self._grants.put(change.obj)
        if affected and change.kind is not ChangeType.DELETED:
            self._report_shadowed(change.obj)
        return [
            key
            for tenant in affected
            for plane in {HOME, PlaneId(tenant)}
            for key in self._ingresses.keys(plane, tenant)
        ]

    def _report_shadowed(self, tenant: Object) -> None:
        """Records an event of a Tenant for grants that have no effect."""
        for domain, owner in self._grants.shadowed(TenantId(objects.name(tenant))):
            message = f'domain "{domain}" has no effect: tenant "{owner}", which is older, has it as well'
            regarding = {**tenant, "apiVersion": TENANTS.api_version, "kind": TENANTS.kind}
            self.events.warning(HOME, regarding, SHADOWED, message)

    # Reconciling

    async def reconcile(self, key: ObjectKey) -> Result:
        ingress = self._ingresses.get(key)
        if ingress is None or not self._is_served(key, ingress):
            return DONE
        desired = reading.read(ingress)
        served = self._report(key, ingress, desired)
        addresses = self._addresses(key.plane, key.tenant, desired.network) if served else []
        await self._write_status(key, ingress, addresses)
        return DONE

    def _is_served(self, key: ObjectKey, ingress: Object) -> bool:
        """Whether the Ingress has a class of ours."""
        classes = reading.served_classes(self._classes.list(key.plane, key.tenant))
        return "deletionTimestamp" not in ingress["metadata"] and reading.class_of(ingress) in classes

    def _report(self, key: ObjectKey, ingress: Object, desired: DesiredIngress) -> bool:
        """Records events for rules that are not served; returns whether any rule is served."""
        regarding = {**ingress, "apiVersion": INGRESSES.api_version, "kind": INGRESSES.kind}
        unserved = [host for host in desired.hosts if self._grants.owner(host) != key.tenant]
        for host in unserved:
            # The same whether or not another tenant has the name.
            message = (
                f'host "{host}" is not served: ask the cluster\'s administrator to add it to spec.domains of '
                f'tenant "{key.tenant}"'
            )
            self.events.warning(key.plane, regarding, UNGRANTED, message)
        has_hostless_rules = desired.fallback is not None or any(rule.host == ANY for rule in desired.rules)
        has_domains = self._grants.has_any(key.tenant)
        if has_hostless_rules and not has_domains:
            message = (
                "rules without a host are served only for the tenant's domains: ask the cluster's administrator "
                f'to add some to spec.domains of tenant "{key.tenant}"'
            )
            self.events.warning(key.plane, regarding, UNGRANTED, message)
        return len(unserved) < len(desired.hosts) or (has_hostless_rules and has_domains)

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

"""Shares of the kernel's maps: what a tenant has over its share is left out of the desired state, and its
objects get events. So the maps are not full, whatever one tenant wants.

The capacities are at most three quarters of the maps (`bpf/lib`): a change adds its new entries before it removes the
old ones, and a starting pod adds its rules before the next pass.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from msgspec.structs import replace

from alcove.agent.network.endpoint_index import EndpointIndex
from alcove.agent.network.policies import DENIED
from alcove.agent.network.ring0_objects import NetworkBacking
from alcove.agent.network.tenant_view import ServiceId
from alcove.agent.network.view import NetworkView
from alcove.agent.podkey import PodKey
from alcove.agent.shares import Amounts, Pool, add, is_within, over_share, shares
from alcove.api.ids import TenantId
from alcove.api.objects import Object
from alcove.client.keys import TenantKey
from alcove.dataplane.model import DataplaneState, RemoteEndpoint, Veth
from alcove.dataplane.policies import compile_profile

log = logging.getLogger(__name__)

SERVICE_ENTRIES = Pool(capacity=196_608, owner_max=50_000)
"""Ports and backends of services on a node, of all tenants and of one. A Service that is over its tenant's
share has no addresses on that node, and gets the event TooManyServiceEntries. Its oldest services keep theirs."""
NODE_PORT_ENTRIES = Pool(capacity=16_384, owner_max=1_024)
"""Node ports, and ports of external addresses, on a node; as SERVICE_ENTRIES. Each is a rule of nftables too."""
POLICY_PEERS = Pool(capacity=786_432, owner_max=200_000)
"""Addresses and prefixes in the policy rules of the pods on a node; equal rules count once. A pod that is over
its tenant's share is denied all new connections, and gets the event TooManyPolicyRules."""
POLICY_RULES = Pool(capacity=196_608, owner_max=50_000)
"""Port ranges in the policy rules of the pods on a node; as POLICY_PEERS."""

ENDPOINTS = Pool(capacity=196_608, owner_max=196_608)
"""Addresses on other nodes that a node knows. Those over a tenant's share cannot be reached from this node."""
NETWORKS = Pool(capacity=3_072, owner_max=1_024)
"""Networks that a node knows: those of its pods, and those that it bounces or divides. A node does not bounce or
divide those over a tenant's share: pods in them may not find each other."""

TOO_MANY_SERVICES, TOO_MANY_RULES = "TooManyServiceEntries", "TooManyPolicyRules"

NetworkNote = Callable[[TenantKey, Object, str, str], None]
"""(tenant, reference to an object of it, reason, message): records a warning event."""
ServedNetwork = tuple[NetworkBacking, Sequence[EndpointIndex]]
"""A VPC that the node bounces or divides, with the endpoints of its subnets."""
Excluded = list[tuple[NetworkView, ServiceId]]


class ServiceShares:
    """Remembers what is over a share, because it takes long to find out for a tenant with many services."""

    def __init__(self) -> None:
        self._surplus: dict[TenantId, tuple[object, frozenset[tuple[int, ServiceId]]]] = {}

    def share(self, views: Collection[NetworkView]) -> Excluded:
        """Leaves out services over the share of their tenant; the oldest ones stay. Returns those that were not
        left out before."""
        pools = (SERVICE_ENTRIES, NODE_PORT_ENTRIES)
        everything = tuple(sum(view.table.amounts[index] for view in views) for index in range(len(pools)))
        if is_within(everything, tuple(min(pool.owner_max, pool.capacity) for pool in pools)):
            # The common case, without looking at each tenant.
            for view in views:
                view.table.exclude(frozenset())
            self._surplus = {}
            return []
        by_tenant: dict[TenantId, list[NetworkView]] = {}
        for view in views:
            by_tenant.setdefault(view.backing.owner.tenant, []).append(view)
        totals = {
            tenant: _total((view.table.amounts for view in of_tenant), 2)
            for tenant, of_tenant in by_tenant.items()
        }
        share = shares(totals.values(), pools)
        excluded: Excluded = []
        surplus: dict[TenantId, tuple[object, frozenset[tuple[int, ServiceId]]]] = {}
        for tenant, of_tenant in by_tenant.items():
            refused = frozenset[tuple[int, ServiceId]]()
            if not is_within(totals[tenant], share):
                state = share, tuple((view.backing.vni, view.table.version) for view in of_tenant)
                known, refused = self._surplus.get(tenant, (None, refused))
                if known != state:
                    refused = _surplus(of_tenant, share)
                surplus[tenant] = state, refused
            for view in of_tenant:
                names = frozenset(service for vni, service in refused if vni == view.backing.vni)
                excluded += [(view, service) for service in sorted(view.table.exclude(names))]
        self._surplus = surplus
        return excluded


def _surplus(views: Iterable[NetworkView], share: Amounts) -> frozenset[tuple[int, ServiceId]]:
    requests = sorted(
        (age, view.backing.vni, service, amounts)
        for view in views
        for age, service, amounts in view.table.requests()
    )
    return over_share({(vni, service): amounts for _, vni, service, amounts in requests}, share)


def share_networks(views: Mapping[int, NetworkView], served: Sequence[ServedNetwork]) -> list[ServedNetwork]:
    """The VPCs that the node serves, without those over the share of their tenant; the ones with pods here and
    the oldest VNIs stay."""
    totals: dict[TenantId, int] = {}
    others = sorted((each for each in served if each[0].vni not in views), key=lambda each: each[0].vni)
    for backing in (*(view.backing for view in views.values()), *(backing for backing, _ in others)):
        totals[backing.owner.tenant] = totals.get(backing.owner.tenant, 0) + 1
    [share] = shares([(total,) for total in totals.values()], (NETWORKS,))
    if all(total <= share for total in totals.values()):
        return list(served)
    used: dict[TenantId, int] = {}
    for view in views.values():
        used[view.backing.owner.tenant] = used.get(view.backing.owner.tenant, 0) + 1
    kept = [each for each in served if each[0].vni in views]
    for each in others:
        tenant = each[0].owner.tenant
        if used.get(tenant, 0) < share:
            used[tenant] = used.get(tenant, 0) + 1
            kept.append(each)
    log.warning(
        "tenants have too many networks; not serving some", extra={"left_out": len(served) - len(kept)}
    )
    return kept


def share_endpoints(
    parts: list[tuple[TenantId, tuple[RemoteEndpoint, ...]]],
) -> list[tuple[RemoteEndpoint, ...]]:
    """The parts, each cut to what is left of its tenant's share."""
    totals: dict[TenantId, int] = {}
    for tenant, part in parts:
        totals[tenant] = totals.get(tenant, 0) + len(part)
    [share] = shares([(total,) for total in totals.values()], (ENDPOINTS,))
    used: dict[TenantId, int] = {}
    cut: list[tuple[RemoteEndpoint, ...]] = []
    for tenant, part in parts:
        # A slice of a whole tuple is that tuple, so what is not cut is still the same object.
        cut.append(part[: max(0, share - used.get(tenant, 0))])
        used[tenant] = used.get(tenant, 0) + len(part)
    return cut


class PolicyShares:
    """Remembers the result as long as the veths are the same: names of rules take long to compute."""

    def __init__(self) -> None:
        self._veths: tuple[Veth, ...] = ()
        self._tenants: Mapping[int, TenantId] = {}
        self._denied: frozenset[str] = frozenset()

    def share(
        self, state: DataplaneState, tenants: Mapping[int, TenantId]
    ) -> tuple[DataplaneState, frozenset[str]]:
        """The state in which veths whose rules are over the share of their tenant are denied everything, and
        their names; the first ones keep their rules. `tenants` has the tenant of each VNI. Equal rules count
        once."""
        if state.veths is not self._veths or tenants != self._tenants:
            self._denied = _over_policies(state.veths, tenants)
            self._veths, self._tenants = state.veths, tenants
        if not self._denied:
            return state, self._denied
        veths = tuple(_closed(veth) if veth.name in self._denied else veth for veth in state.veths)
        return replace(state, veths=veths), self._denied


def _over_policies(veths: tuple[Veth, ...], tenants: Mapping[int, TenantId]) -> frozenset[str]:
    contents: dict[TenantId, dict[int, Amounts]] = {}
    used: dict[str, frozenset[int]] = {}
    for veth in veths:
        compiled = [compile_profile(each) for each in (veth.ingress, veth.egress) if each is not None]
        used[veth.name] = frozenset(each.name for each in compiled)
        of_tenant = contents.setdefault(tenants[veth.vni], {})
        for each in compiled:
            of_tenant.setdefault(each.name, (len(each.peers), len(each.rules)))
    totals = {tenant: _total(each.values(), 2) for tenant, each in contents.items()}
    share = shares(totals.values(), (POLICY_PEERS, POLICY_RULES))
    refused = {
        tenant: over_share(each, share)
        for tenant, each in contents.items()
        if not is_within(totals[tenant], share)
    }
    return frozenset(
        veth.name for veth in veths if used[veth.name] & refused.get(tenants[veth.vni], frozenset())
    )


def _closed(veth: Veth) -> Veth:
    return replace(veth, ingress=DENIED, egress=DENIED)


def _total(amounts: Iterable[Amounts], count: int) -> Amounts:
    total: Amounts = (0,) * count
    for each in amounts:
        total = add(total, each)
    return total


def note_service(note: NetworkNote, node: str, view: NetworkView, service: ServiceId) -> None:
    obj = view.tenant.service(service)
    if obj is None:
        return
    involved = _reference("Service", *service, obj["metadata"]["uid"])
    message = (
        f"service has no addresses on node {node}: the ports and backends of the tenant's services exceed the "
        "tenant's share of that node"
    )
    note(view.tenant.tenant_key, involved, TOO_MANY_SERVICES, message)


def note_pod(note: NetworkNote, node: str, key: PodKey) -> None:
    involved = _reference("Pod", key.namespace, key.name, key.uid)
    message = (
        f"pod is denied all connections: its network policy rules, or those of all of the tenant's pods on node "
        f"{node}, are too many"
    )
    note(TenantKey(key.plane, key.tenant), involved, TOO_MANY_RULES, message)


def _reference(kind: str, namespace: str, name: str, uid: str) -> Object:
    return {"apiVersion": "v1", "kind": kind, "namespace": namespace, "name": name, "uid": uid}

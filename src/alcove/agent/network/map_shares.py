"""Shares of the kernel's maps: what a tenant has over its share is left out of the desired state, and its
objects get events. So the maps are not full, whatever one tenant wants.

The capacities are at most three quarters of the maps (`bpf/lib`): a change adds its new entries before it removes the
old ones, and a starting pod adds its rules before the next pass.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from msgspec.structs import replace

from alcove.agent.network.endpoint_index import EndpointIndex
from alcove.agent.network.policies import DENIED
from alcove.agent.network.ring0_objects import NetworkBacking
from alcove.agent.network.tenant_view import ServiceId, TenantNetworkView
from alcove.agent.network.view import NetworkView
from alcove.agent.podkey import PodKey
from alcove.agent.shares import Amounts, Pool, add, is_within, over_share, shares
from alcove.api.ids import SYSTEM, TenantId
from alcove.api.objects import Object
from alcove.api.service_ips import SERVICE_RANGES_MAX
from alcove.client.keys import HOME, TenantKey
from alcove.client.resources import NETWORKS as NETWORKS_RESOURCE
from alcove.dataplane.model import DataplaneState, RemoteEndpoint, Veth
from alcove.dataplane.policies import compile_profile
from alcove.network.owners import TenantNetworkId

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
"""Addresses on other nodes that a node knows. Those over a tenant's share cannot be reached from this node, and their
network gets the event TooManyEndpoints."""
NETWORKS = Pool(capacity=3_072, owner_max=1_024)
"""Networks that a node knows: those of its pods, and those that it bounces or divides. A node does not bounce or
divide those over a tenant's share: pods in them may not find each other. They get the event TooManyNetworks."""

ROUTES = Pool(capacity=49_152, owner_max=12_288)
"""Subnets, and ranges of VPCs and services, of these networks, at most. As NETWORKS: a tenant with as many networks as it may have, and as many
subnets in each, would fill the table."""
ROUTES_BESIDE_SUBNETS = 2 + SERVICE_RANGES_MAX
"""Routes of a network for its services and the world, at most."""

TOO_MANY_SERVICES, TOO_MANY_RULES = "TooManyServiceEntries", "TooManyPolicyRules"
TOO_MANY_RECORDS = "TooManyDnsRecords"
TOO_MANY_ENDPOINTS, TOO_MANY_NETWORKS = "TooManyEndpoints", "TooManyNetworks"
FAILED_GATEWAY = "FailedGateway"

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


def share_networks(
    views: Mapping[int, NetworkView], served: Sequence[ServedNetwork]
) -> tuple[list[ServedNetwork], frozenset[TenantNetworkId]]:
    """The VPCs that the node serves, without those over the share of their tenant, in number or in routes, and the networks
    that are left out; the ones with pods here and the oldest VNIs stay."""
    others = sorted((each for each in served if each[0].vni not in views), key=lambda each: each[0].vni)
    used: dict[TenantId, Amounts] = {}
    for view in views.values():
        _spend(used, view.backing)
    totals = used.copy()
    for backing, _ in others:
        _spend(totals, backing)
    share = shares(totals.values(), (NETWORKS, ROUTES))
    if all(is_within(total, share) for total in totals.values()):
        return list(served), frozenset()
    kept = [each for each in served if each[0].vni in views]
    left_out: set[TenantNetworkId] = set()
    for each in others:
        owner = each[0].owner
        if is_within(add(used.get(owner.tenant, (0, 0)), _network_amounts(each[0])), share):
            _spend(used, each[0])
            kept.append(each)
        else:
            left_out.add(owner)
    return kept, frozenset(left_out)


def _network_amounts(backing: NetworkBacking) -> Amounts:
    """The network, and its routes."""
    return 1, ROUTES_BESIDE_SUBNETS + len(backing.vpc.prefixes) + len(backing.subnets)


def _spend(used: dict[TenantId, Amounts], backing: NetworkBacking) -> None:
    tenant = backing.owner.tenant
    used[tenant] = add(used.get(tenant, (0, 0)), _network_amounts(backing))


def share_endpoints(
    parts: list[tuple[TenantNetworkId, tuple[RemoteEndpoint, ...]]],
) -> tuple[list[tuple[RemoteEndpoint, ...]], frozenset[TenantNetworkId]]:
    """The parts, each cut to what is left of its tenant's share, and the networks of those that were cut."""
    totals: dict[TenantId, int] = {}
    for owner, part in parts:
        totals[owner.tenant] = totals.get(owner.tenant, 0) + len(part)
    [share] = shares([(total,) for total in totals.values()], (ENDPOINTS,))
    used: dict[TenantId, int] = {}
    kept: list[tuple[RemoteEndpoint, ...]] = []
    cut: set[TenantNetworkId] = set()
    for owner, part in parts:
        # A slice of a whole tuple is that tuple, so what is not cut is still the same object.
        kept.append(part[: max(0, share - used.get(owner.tenant, 0))])
        used[owner.tenant] = used.get(owner.tenant, 0) + len(part)
        if len(kept[-1]) < len(part):
            cut.add(owner)
    return kept, frozenset(cut)


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
        tenant = tenants[veth.vni]
        compiled = [compile_profile(each, tenant) for each in (veth.ingress, veth.egress) if each is not None]
        used[veth.name] = frozenset(each.name for each in compiled)
        of_tenant = contents.setdefault(tenant, {})
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
    message = (
        f"service has no addresses on node {node}: the ports and backends of the tenant's services exceed the "
        "tenant's share of that node"
    )
    _note_service(note, view, service, TOO_MANY_SERVICES, message)


def note_names(note: NetworkNote, node: str, view: NetworkView) -> None:
    """Records events of services that have no names on the node since the last call."""
    for service in view.names.refused():
        message = (
            f"service has no DNS names on node {node}: the records of the tenant's services and pods exceed the "
            "tenant's share of that node"
        )
        _note_service(note, view, service, TOO_MANY_RECORDS, message)


def _note_service(
    note: NetworkNote, view: NetworkView, service: ServiceId, reason: str, message: str
) -> None:
    obj = view.tenant.service(service)
    if obj is not None:
        involved = _reference("Service", *service, obj["metadata"]["uid"])
        note(view.tenant.tenant_key, involved, reason, message)


class NetworkLosses:
    """Records events of networks that are over a tenant's share, or lack something else, once each time that they
    begin to."""

    def __init__(self, node: str, note: NetworkNote) -> None:
        self._node = node
        self._note = note
        self._known: dict[str, frozenset[TenantNetworkId]] = {}

    def report(
        self,
        reason: str,
        networks: frozenset[TenantNetworkId],
        tenants: Mapping[TenantId, TenantNetworkView],
    ) -> None:
        """`tenants` are those with pods on this node."""
        for owner in sorted(networks - self._known.get(reason, frozenset())):
            message = f"network {owner.name} {_LOSSES[reason].format(node=self._node)}"
            tenant_key, involved = _owner_of(owner, tenants.get(owner.tenant))
            self._note(tenant_key, involved, reason, message)
        self._known[reason] = networks


def _owner_of(owner: TenantNetworkId, tenant: TenantNetworkView | None) -> tuple[TenantKey, Object]:
    """Whose event it is, and of which object: the network, or ring0's Tenant if the tenant has no pods on this node,
    as the API server lets a node write to tenants that have."""
    if tenant is None:
        return TenantKey(HOME, SYSTEM), {"apiVersion": "v1", "kind": "Tenant", "name": owner.tenant}
    involved: Object = {
        "apiVersion": NETWORKS_RESOURCE.api_version,
        "kind": NETWORKS_RESOURCE.kind,
        "name": owner.name,
    }
    network = tenant.network(owner)
    if network is not None:
        involved["uid"] = network["metadata"]["uid"]
    return tenant.tenant_key, involved


_LOSSES = {
    FAILED_GATEWAY: (
        "does not have the gateway on node {node} that it should have: node ports, external addresses and connections "
        "to the world may not work there; check its services of these types, or ask the administrator for the log of "
        "that node"
    ),
    TOO_MANY_ENDPOINTS: (
        "has pods that cannot be reached from node {node}: the tenant's pods have more addresses than its share of "
        "that node; delete pods that are not needed"
    ),
    TOO_MANY_NETWORKS: (
        "is not served by node {node}, and its pods may not find each other: the tenant has more networks, or "
        "subnets of networks, than its share of that node; delete networks that are not needed"
    ),
}


def note_pod(note: NetworkNote, node: str, key: PodKey) -> None:
    message = (
        f"pod is denied all connections: its network policy rules, or those of all of the tenant's pods on node "
        f"{node}, are too many"
    )
    note(key.tenant_key, pod_reference(key), TOO_MANY_RULES, message)


def pod_reference(key: PodKey) -> Object:
    return _reference("Pod", key.namespace, key.name, key.uid)


def _reference(kind: str, namespace: str, name: str, uid: str) -> Object:
    return {"apiVersion": "v1", "kind": kind, "namespace": namespace, "name": name, "uid": uid}

"""What should happen to a packet, step by step, from a tenant's own objects. Pure: no I/O.

    trace(objects, TraceRequest(("shop", "web"), "db/postgres", 5432, "TCP"))

A service is followed to each of its ready backends. Only what the tenant can read is used: where ring0's objects decide
(nodes, ranges that pods may reach outside), a step says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from ipaddress import ip_address, ip_network

from msgspec import Struct, structs

from alcove.api import destinations, objects
from alcove.api.addresses import Address, Network
from alcove.api.kinds.core.networks import network_of
from alcove.api.objects import Object
from alcove.network import wellknown
from alcove.network.gateway_peers import gateway_peers
from alcove.network.policy import PolicyPeer, PolicySet, allows, peer_of
from alcove.network.wellknown import API_NAME, API_NAMESPACE, DNS_NAME, DNS_NAMESPACE

GATEWAY_OFFSET = 1
"""Of the gateway's address in the network's range."""
BACKENDS_MAX = 8
"""Backends of a service that are followed."""
SERVICE_LABEL = "kubernetes.io/service-name"
FORWARDED, DROPPED, DEPENDS = "forwarded", "dropped", "depends on the backend"


class TraceFailure(ValueError):
    """The request names something that does not exist; the message says what."""


class TraceRequest(Struct, frozen=True):
    source: tuple[str, str]
    """Namespace and name of a pod."""
    to: str
    """A pod or service (NAME or NAMESPACE/NAME), a service's DNS name, or an IP address."""
    port: int = 0
    """0 for the only port of a service."""
    protocol: str = "TCP"
    resolved: tuple[str, ...] = ()
    """The addresses of `to`, if it is a name of which the objects do not say them (`NameLookup.addresses` is None)."""


class TenantObjects(Struct, frozen=True):
    pods: Sequence[Object]
    services: Sequence[Object]
    slices: Sequence[Object]
    policies: Sequence[Object]
    namespaces: Sequence[Object]
    networks: Sequence[Object]


class TraceStep(Struct, frozen=True):
    stage: str
    message: str
    passes: bool = True


class NameLookup(Struct, frozen=True):
    """The name that the pod looks up before it sends."""

    name: str
    addresses: tuple[str, ...] | None
    """None if the objects do not say them."""


class Trace(Struct, frozen=True):
    steps: tuple[TraceStep, ...]
    verdict: str
    dialed: tuple[str, int] | None = None
    """The address and port that the pod sends to, if it has one of this family; None if it sends nothing."""
    targets: tuple[tuple[str, int], ...] = ()
    """Where such packets may go after translation."""
    lookup: NameLookup | None = None


class _Target(Struct, frozen=True):
    """Where the packet goes after translation; without a pod, an address outside the network."""

    address: Address
    port: int
    pod: Object | None = None
    is_gateway: bool = False
    """A server of the network itself, on the sender's node."""


def trace(tenant: TenantObjects, request: TraceRequest) -> Trace:
    """Raises TraceFailure."""
    return _Tracer(tenant, request).run()


class _Tracer:
    def __init__(self, tenant: TenantObjects, request: TraceRequest) -> None:
        self._tenant = tenant
        self._request = request
        self._source = self._pod(*request.source)
        if self._source is None:
            raise TraceFailure(f'pod "{request.source[1]}" not found in namespace "{request.source[0]}"')
        self._network = network_of(self._source)
        self._dialed: tuple[str, int] | None = None
        self._lookup: NameLookup | None = None
        self._members = {
            address: pod
            for pod in tenant.pods
            if network_of(pod) == self._network
            for address in addresses_of(pod)
        }
        network = next((each for each in tenant.networks if objects.name(each) == self._network), {})
        self._ranges = _ranges(network)
        self._has_egress = bool(objects.get(network, "spec", "egress", "enabled", default=False))
        self._gateways = [each.network_address + GATEWAY_OFFSET for each in self._ranges]
        self._peers = [
            *gateway_peers(self._network, self._gateways),
            *(peer_of(pod, addresses_of(pod)) for pod in tenant.pods if network_of(pod) == self._network),
        ]
        self._labels: Mapping[str, Mapping[str, str]] = {
            objects.name(each): objects.labels(each) for each in tenant.namespaces
        }

    def run(self) -> Trace:
        assert self._source is not None
        own = addresses_of(self._source)
        node = objects.get(self._source, "spec", "nodeName", default="")
        place = f"on {node}" if node else "not scheduled yet"
        name = "/".join(self._request.source)
        if not own:
            return _end(
                TraceStep(
                    "source", f'pod {name}, {place}, has no address in network "{self._network}" yet', False
                )
            )
        first = TraceStep("source", f'pod {name} ({own[0]}) {place}, network "{self._network}"')
        steps, targets = self._targets()
        if not targets:
            return Trace((first, *steps), DROPPED, self._dialed, lookup=self._lookup)
        paths = [self._follow(own, target) for target in targets]
        verdicts = {all(step.passes for step in path) for path in paths}
        verdict = DEPENDS if len(verdicts) > 1 else FORWARDED if verdicts == {True} else DROPPED
        ends = tuple((str(each.address), each.port) for each in targets)
        followed = (step for path in paths for step in path)
        return Trace((first, *steps, *followed), verdict, self._dialed, ends, self._lookup)

    # Where it goes

    def _targets(self) -> tuple[list[TraceStep], list[_Target]]:
        """The steps up to the translated destinations; no destinations if it ends before."""
        to, port = self._request.to, self._request.port
        address = _address(to)
        if address is not None:
            return self._at(address)
        namespace, name = self._named(to)
        if not namespace:
            return self._by_name(name)
        pod, found = self._pod(namespace, name), self._own(namespace, name) or self._service(namespace, name)
        if found is not None and (pod is None or not port or port in _ports(found)):
            return self._by_service(found)
        if pod is None and "." in to and "/" not in to:
            return self._by_name(to)
        if pod is None:
            raise TraceFailure(f'neither a service nor a pod "{name}" found in namespace "{namespace}"')
        return self._by_pod(pod, port)

    def _named(self, to: str) -> tuple[str, str]:
        """Namespace and name of what is meant; without a namespace, a DNS name that is not a service's."""
        namespace, _, name = to.rpartition("/")
        if namespace or "." not in name or self._pod(self._request.source[0], name) is not None:
            return namespace or self._request.source[0], name
        labels = name.rstrip(".").split(".")
        if len(labels) == 2 or labels[2] == "svc":
            return labels[1], labels[0]
        return "", name

    def _by_name(self, name: str) -> tuple[list[TraceStep], list[_Target]]:
        """A name that is not a service's, or an alias: only the network's DNS server knows its addresses."""
        self._lookup = lookup = NameLookup(name, None)
        found = [address for text in self._request.resolved if (address := _address(text)) is not None]
        if not found:
            return [TraceStep("dns", f"no service or pod of the tenant has the name {name}", False)], []
        shown = TraceStep("dns", f"{name} is {', '.join(map(str, found[:BACKENDS_MAX]))}, by DNS")
        steps, targets = self._at(found[0])
        self._lookup = lookup
        return [shown, *steps], targets

    def _at(self, address: Address) -> tuple[list[TraceStep], list[_Target]]:
        service = next((each for each in self._services() if address in cluster_ips(each)), None)
        if service is not None:
            return self._by_service(service)
        return self._by_address(address, self._request.port)

    def _by_pod(self, pod: Object, port: int) -> tuple[list[TraceStep], list[_Target]]:
        title = f"pod {_name(pod)}"
        if network_of(pod) != self._network:
            message = f'{title} is in network "{network_of(pod)}": networks are not connected'
            return [TraceStep("destination", message, False)], []
        found = addresses_of(pod)
        if not found:
            return [TraceStep("destination", f"{title} has no address yet", False)], []
        self._dialed = str(found[0]), port
        return [TraceStep("destination", f"{title} ({found[0]})")], [_Target(found[0], port, pod)]

    def _by_address(self, address: Address, port: int) -> tuple[list[TraceStep], list[_Target]]:
        if address in self._members:
            return self._by_pod(self._members[address], port)
        self._dialed = str(address), port
        if any(address in each for each in self._ranges):
            message = f'no pod and no service of network "{self._network}" has the address {address}'
            return [TraceStep("destination", message, False)], []
        return [TraceStep("destination", f'{address} is outside network "{self._network}"')], [
            _Target(address, port)
        ]

    def _by_service(self, service: Object) -> tuple[list[TraceStep], list[_Target]]:
        title, ips = f"service {_name(service)}", cluster_ips(service)
        dns = f"{objects.name(service)}.{objects.namespace(service)}.svc"
        if network_of(service) != self._network:
            self._lookup = NameLookup(dns, ())
            message = f'{title} is in network "{network_of(service)}": networks are not connected'
            return [TraceStep("service", message, False)], []
        if alias := objects.get(service, "spec", "externalName", default=""):
            steps, targets = self._by_name(dns)
            return [TraceStep("service", f"{title} is another name of {alias}"), *steps], targets
        ready = ips or sorted({each.address for each in self._ready(service)}, key=str)
        self._lookup = NameLookup(dns, tuple(map(str, ready)))
        named = ", ".join(map(str, ips)) or "the addresses of its pods (headless)"
        steps = [TraceStep("dns", f"{dns} is {named}")]
        ports = objects.get(service, "spec", "ports", default=[])
        wanted = [each for each in ports if (each.get("protocol") or "TCP") == self._request.protocol]
        if self._request.port:
            wanted = [each for each in wanted if each.get("port") == self._request.port]
        if len(wanted) != 1:
            has = ", ".join(f"{each.get('port')}/{each.get('protocol') or 'TCP'}" for each in ports) or "none"
            message = (
                f"{title} has not this port, or several: say which by --port and --protocol (it has {has})"
            )
            return [*steps, TraceStep("service", message, False)], []
        if ips:
            self._dialed = str(ips[0]), wanted[0]["port"]
            backends = list(self._backends(service, wanted[0]))
        else:
            # Nothing translates packets to a headless service: they keep the port that was dialed.
            backends = [structs.replace(each, port=wanted[0]["port"]) for each in self._ready(service)]
        if not backends:
            return [
                *steps,
                TraceStep("service", f"{title}:{wanted[0]['port']} has no ready endpoints", False),
            ], []
        if not ips:
            self._dialed = str(backends[0].address), backends[0].port
        shown = ", ".join(f"{each.address}:{each.port}" for each in backends[:BACKENDS_MAX])
        more = f" and {len(backends) - BACKENDS_MAX} more" if len(backends) > BACKENDS_MAX else ""
        count = f"one of {len(backends)} backends" if len(backends) > 1 else "its backend"
        becomes = "becomes" if ips else "is headless: packets go to"
        steps.append(TraceStep("service", f"{title}:{wanted[0]['port']} {becomes} {count}: {shown}{more}"))
        return steps, backends[:BACKENDS_MAX]

    def _backends(self, service: Object, port: Object) -> Iterator[_Target]:
        """The ready endpoints of a service's port."""
        if wellknown.is_ours(service):
            address = next(iter([*self._gateways, *cluster_ips(service)]))
            yield _Target(address, port.get("targetPort") or port["port"], is_gateway=True)
            return
        for each in self._slices(service):
            names = {one.get("name") or "": one for one in each.get("ports") or ()}
            number = (names.get(port.get("name") or "") or {}).get("port")
            if number:
                yield from (structs.replace(one, port=number) for one in self._endpoints(each))

    def _ready(self, service: Object) -> list[_Target]:
        """All ready endpoints of a service, without a port."""
        return [target for each in self._slices(service) for target in self._endpoints(each)]

    def _slices(self, service: Object) -> Iterator[Object]:
        for each in self._tenant.slices:
            is_named = objects.labels(each).get(SERVICE_LABEL) == objects.name(service)
            if is_named and objects.namespace(each) == objects.namespace(service):
                yield each

    def _endpoints(self, endpoint_slice: Object) -> Iterator[_Target]:
        for endpoint in endpoint_slice.get("endpoints") or ():
            if (endpoint.get("conditions") or {}).get("ready") is not False:
                for text in endpoint.get("addresses") or ():
                    address = _address(text)
                    if address is not None:
                        yield _Target(address, 0, self._members.get(address))

    # What happens on the way

    def _follow(self, own: Sequence[Address], target: _Target) -> list[TraceStep]:
        assert self._source is not None
        source = next((each for each in own if each.version == target.address.version), None)
        if source is None:
            return [TraceStep("source", f"the pod has no IPv{target.address.version} address", False)]
        steps = [self._policy("egress", self._source, target.address, target.port)]
        if target.pod is None and steps[0].passes:
            return [*steps, *(self._inside_gateway() if target.is_gateway else self._outside(target))]
        if target.pod is None:
            return steps
        if steps[0].passes:
            steps.append(self._policy("ingress", target.pod, source, target.port))
        if not steps[-1].passes:
            return steps
        here, there = (objects.get(pod, "spec", "nodeName", default="") for pod in (self._source, target.pod))
        way = f"on {here}" if here == there else f"by the tunnel from {here} to {there}"
        return [
            *steps,
            TraceStep("delivery", f"to pod {_name(target.pod)} ({target.address}:{target.port}), {way}"),
        ]

    def _policy(self, direction: str, pod: Object, peer: Address, port: int) -> TraceStep:
        """The policies of a pod for a connection to or from the peer."""
        stage, name = f"{direction} policy", _name(pod)
        policies = [
            each for each in self._tenant.policies if objects.namespace(each) == objects.namespace(pod)
        ]
        selecting = getattr(self._set(policies).selecting(self._peer(pod)), direction)
        if not selecting:
            return TraceStep(
                stage, f"no NetworkPolicy selects pod {name} for {direction}: everything is allowed"
            )
        for each in selecting:
            if allows(each.rules, peer, self._request.protocol, port):
                rule = self._rule(direction, each.policy, pod, peer, port)
                return TraceStep(stage, f"allowed by NetworkPolicy {each.policy}, {direction} rule {rule}")
        names = ", ".join(sorted(each.policy for each in selecting))
        message = f"denied: NetworkPolicies that select pod {name} for {direction}, of which none allows it: {names}"
        return TraceStep(stage, message, False)

    def _rule(self, direction: str, policy: str, pod: Object, peer: Address, port: int) -> int:
        """The number of the policy's first rule that allows the connection, from 1."""
        [found] = [each for each in self._tenant.policies if _name(each) == policy]
        rules = objects.get(found, "spec", direction, default=[])
        for number, rule in enumerate(rules, 1):
            single = {**found, "spec": {**found["spec"], direction: [rule]}}
            [named] = getattr(self._set([single]).selecting(self._peer(pod)), direction)
            if allows(named.rules, peer, self._request.protocol, port):
                return number
        return 0

    def _set(self, policies: Iterable[Object]) -> PolicySet:
        return PolicySet(policies, self._labels, self._peers)

    def _peer(self, pod: Object) -> PolicyPeer:
        return peer_of(pod, addresses_of(pod))

    def _inside_gateway(self) -> list[TraceStep]:
        node = objects.get(self._source or {}, "spec", "nodeName", default="")
        return [TraceStep("delivery", f"to the network's own server on {node}")]

    def _outside(self, target: _Target) -> list[TraceStep]:
        if not self._has_egress:
            message = f'network "{self._network}" has no egress (spec.egress.enabled): nothing leaves it'
            return [TraceStep("gateway", message, False)]
        if destinations.is_allowed(target.address, destinations.NOT_PUBLIC):
            message = f"{target.address} is not public: dropped, unless ring0 allows the tenant this range"
            return [TraceStep("gateway", message, False)]
        node = objects.get(self._source or {}, "spec", "nodeName", default="")
        message = (
            f"leaves by the gateway on {node}, with the address of the node (NAT), unless it is a node's own"
        )
        return [TraceStep("gateway", message)]

    # Objects

    def _pod(self, namespace: str, name: str) -> Object | None:
        return find(self._tenant.pods, namespace, name)

    def _service(self, namespace: str, name: str) -> Object | None:
        return find(self._tenant.services, namespace, name)

    def _own(self, namespace: str, name: str) -> Object | None:
        """The network's own DNS or API server, by the name that it has in Kubernetes."""
        is_alias = (namespace, name) in ((API_NAMESPACE, API_NAME), (DNS_NAMESPACE, DNS_NAME))
        return self._service(namespace, f"{name}-{self._network}") if is_alias else None

    def _services(self) -> list[Object]:
        return [each for each in self._tenant.services if network_of(each) == self._network]


def _end(*steps: TraceStep) -> Trace:
    return Trace(steps, DROPPED)


def find(items: Iterable[Object], namespace: str, name: str) -> Object | None:
    """The object of this namespace and name; None if there is none."""
    return next(
        (each for each in items if (objects.namespace(each), objects.name(each)) == (namespace, name)), None
    )


def _name(obj: Object) -> str:
    return f"{objects.namespace(obj)}/{objects.name(obj)}"


def _ports(service: Object) -> set[int]:
    return {each.get("port", 0) for each in objects.get(service, "spec", "ports", default=[])}


def _address(text: str) -> Address | None:
    try:
        return ip_address(text)
    except ValueError:
        return None


def addresses_of(pod: Object) -> list[Address]:
    """The pod's addresses; none once it has ended."""
    status = pod.get("status") or {}
    if status.get("phase") in ("Succeeded", "Failed"):
        return []
    texts = [each.get("ip", "") for each in status.get("podIPs") or ()] or [status.get("podIP") or ""]
    return [address for text in texts if (address := _address(text)) is not None]


def cluster_ips(service: Object) -> list[Address]:
    spec = service.get("spec") or {}
    texts = spec.get("clusterIPs") or [spec.get("clusterIP") or ""]
    return [address for text in texts if (address := _address(text)) is not None]


def _ranges(network: Object) -> list[Network]:
    """The network's own range, where its spec or status has one."""
    spec, status = network.get("spec") or {}, network.get("status") or {}
    text = f"{spec['ip']}/{spec.get('prefix')}" if spec.get("ip") else status.get("cidr") or ""
    try:
        return [ip_network(text)] if text else []
    except ValueError:
        return []

"""A tenant with an IPv4 and an IPv6 network over two real nodes, for trying NetworkPolicies with packets.

`differences` writes policies and labels through the API, waits until both nodes have applied them, and compares what
gets through with `policy_oracle`.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import permutations

from dnslib import DNSRecord
from msgspec import Struct

from alcove.api.objects import Object
from alcove.dataplane.desired import endpoint_key
from alcove.dataplane.maps import ENDPOINT, MapName
from alcove.dataplane.model import PortRange, Protocol
from alcove.dataplane.policies import compile_profile
from alcove.testing.nodecluster import AttachedPod, NodeCluster
from alcove.testing.policy_oracle import Labels, PolicyEnd, allowed
from alcove.testing.policy_samples import NAMES, NAMESPACES, PORTS
from alcove.testing.reachability import Attempt, Reachability
from alcove.testing.server import wait_until

TENANT = "guarded"
RANGES = {"four": "10.7.0.0/24", "six": "fd00:7::/64"}
GATEWAYS = {"four": "10.7.0.1", "six": "fd00:7::1"}
OUTSIDE, OUTSIDE_RANGE = "203.0.113.5", "203.0.113.0/24"
MEMBERS = (("shop", "web", 0), ("shop", "db", 1), ("bank", "web", 1), ("bank", "db", 0))
"""Namespace, app and node of the pods of each network."""
MARK = "beacon"
"""The namespace of pods that show which changes a node has applied."""
STAYING: Mapping[str, object] = {"tolerations": [{"operator": "Exists"}]}
"""For pods on nodes without an agent: nobody says that these nodes are alive."""
POLICIES = "/apis/networking.k8s.io/v1/tenants/{}/namespaces/{}/networkpolicies"


class Trial(Struct, frozen=True):
    """An attempt, and the ends and port that policies see once services are translated."""

    attempt: Attempt
    source: str
    target: str
    port: int


class PolicyWorld:
    def __init__(self, cluster: NodeCluster, reachability: Reachability) -> None:
        self._cluster = cluster
        self._reachability = reachability
        self._round = 0
        self._pods: dict[str, AttachedPod] = {}
        self._beacons: dict[str, list[AttachedPod]] = {}
        self._ends: dict[str, PolicyEnd] = {}
        self._namespaces: dict[str, dict[str, str]] = {}
        self._trials: list[Trial] = []
        self._policies: list[Object] = []
        self._gateway_servers: set[str] = set()
        self._live: list[Trial] = []
        """Trials whose TCP connections are open since the last round."""

    @property
    def pods(self) -> tuple[str, ...]:
        return tuple(self._pods)

    @property
    def addresses(self) -> list[str]:
        return [pod.address for pod in self._pods.values()]

    def set_up(self) -> None:
        egress = {"egress": {"allowedCIDRs": [OUTSIDE_RANGE]}}
        self._cluster.make_tenant(TENANT)
        self._cluster.must(self._cluster.server.system.patch(f"/api/v1/tenants/{TENANT}", {"spec": egress}))
        for name in ("kube-system", "default"):
            self._namespaces[name] = {}
        for name, team in (*zip(NAMESPACES, ("a", "b"), strict=True), (MARK, "none")):
            self._cluster.make_namespace(TENANT, name, {"team": team})
            self._namespaces[name] = {"team": team}
        for network, cidr in RANGES.items():
            self._set_up_network(network, cidr)
        self._ends["outside"] = PolicyEnd(name="outside", address=OUTSIDE)
        self._reachability.serve(self._cluster.world, OUTSIDE, {"TCP": [80], "UDP": [80]})
        self._add_world_trials()

    def _set_up_network(self, network: str, cidr: str) -> None:
        base, _, length = cidr.partition("/")
        spec = {"type": "vpc", "ip": base, "prefix": int(length), "egress": {"enabled": True}}
        self._cluster.make_network(TENANT, network, spec)
        for namespace, app, node in MEMBERS:
            self._place(f"{network}/{namespace}/{app}", network, namespace, app, node)
        self._beacons[network] = [
            self._cluster.place_pod(TENANT, node, network, namespace=MARK, **STAYING) for node in (0, 1)
        ]
        names = [name for name in self._pods if name.startswith(f"{network}/")]
        for source, target in permutations(names, 2):
            address = self._pods[target].address
            for protocol, numbers in PORTS.items():
                for number in numbers:
                    self._add(source, target, address, number, protocol, number)
        self._add_gateway_trials(network, names)
        self._add_service_trials(network, names)

    def _place(self, name: str, network: str, namespace: str, app: str, node: int) -> None:
        ports = [
            {"name": port_name, "protocol": protocol, "containerPort": number}
            for (port_name, protocol), number in NAMES[app].items()
        ]
        # A pod may use a name once: the second of two goes into another container.
        containers = [{"name": f"c{at}", "image": "none", "ports": [port]} for at, port in enumerate(ports)]
        labels = {"app": app, "tier": "front", "member": f"{network}-{namespace}-{app}"}
        pod = self._cluster.place_pod(
            TENANT, node, network, namespace=namespace, labels=labels, containers=containers, **STAYING
        )
        self._pods[name] = pod
        self._ends[name] = PolicyEnd(
            name=name, address=pod.address, namespace=namespace, labels=labels, ports=NAMES[app]
        )
        self._reachability.serve(pod.namespace, pod.address, PORTS)

    def _add(
        self, source: str, target: str, address: str, port: int, protocol: str, seen_port: int, **more: bytes
    ) -> None:
        pod = self._pods.get(source)
        attempt = Attempt(
            name=f"{source} > {target} {protocol} {seen_port} at {address}:{port}",
            source=pod.namespace if pod is not None else self._cluster.world,
            source_address=pod.address if pod is not None else OUTSIDE,
            address=address,
            port=port,
            protocol=protocol,
            **more,
        )
        self._trials.append(Trial(attempt, source, target, seen_port))

    def _add_gateway_trials(self, network: str, names: Sequence[str]) -> None:
        """The network's DNS and API server are peers of their own, though they have one address."""
        dns, api = f"{network}/dns", f"{network}/api"
        self._gateway_servers |= {dns, api}
        self._ends[dns] = PolicyEnd(
            name=dns,
            address=GATEWAYS[network],
            namespace="kube-system",
            labels={"k8s-app": "kube-dns"},
            ports={("dns", "UDP"): 53, ("dns-tcp", "TCP"): 53},
        )
        self._ends[api] = PolicyEnd(
            name=api,
            address=GATEWAYS[network],
            namespace="default",
            labels={"component": "apiserver", "provider": "kubernetes"},
            ports={("https", "TCP"): 6443},
        )
        question = bytes(DNSRecord.question("kubernetes.default.svc.cluster.local").pack())
        dns_address = self._cluster.service_address(TENANT, "kube-system", f"kube-dns-{network}")
        api_address = self._cluster.service_address(TENANT, "default", f"kubernetes-{network}")
        for source in names:
            self._add(source, dns, dns_address, 53, "UDP", 53, question=question)
            self._add(source, dns, dns_address, 53, "TCP", 53)
            self._add(source, api, api_address, 443, "TCP", 6443)

    def _add_service_trials(self, network: str, names: Sequence[str]) -> None:
        """A service at port 8000 whose only backend is one pod, on a port with another number."""
        target = f"{network}/shop/web"
        spec = {
            "network": network,
            "selector": {"member": f"{network}-shop-web"},
            "ports": [{"port": 8000, "targetPort": "http"}],
            "publishNotReadyAddresses": True,
            "type": "NodePort" if network == "four" else "ClusterIP",
            **({"externalTrafficPolicy": "Local"} if network == "four" else {}),
        }
        path = f"/api/v1/tenants/{TENANT}/namespaces/shop/services"
        obj = {"metadata": {"name": f"front-{network}"}, "spec": spec}
        made = self._cluster.must(self._cluster.server.system.post(path, obj))
        for source in names:
            if source != target:
                self._add(source, target, made["spec"]["clusterIP"], 8000, "TCP", 80)
        if network == "four":
            node = self._pods[target].node.node.address
            self._add("outside", target, str(node), made["spec"]["ports"][0]["nodePort"], "TCP", 80)

    def _add_world_trials(self) -> None:
        for source in self._pods:
            if source.startswith("four/"):
                self._add(source, "outside", OUTSIDE, 80, "TCP", 80)
                self._add(source, "outside", OUTSIDE, 80, "UDP", 80)

    # A round

    def relabel_pod(self, name: str, labels: Labels) -> None:
        end = self._ends[name]
        merged = {**end.labels, **labels}
        patch = {"metadata": {"labels": merged}}
        self._cluster.must(self._cluster.server.system.patch(self._pods[name].path, patch))
        self._ends[name] = PolicyEnd(
            name=name, address=end.address, namespace=end.namespace, labels=merged, ports=end.ports
        )

    def relabel_namespace(self, name: str, labels: Mapping[str, str]) -> None:
        path = f"/api/v1/tenants/{TENANT}/namespaces/{name}"
        self._cluster.must(self._cluster.server.system.patch(path, {"metadata": {"labels": dict(labels)}}))
        self._namespaces[name] = {**self._namespaces[name], **labels}

    def differences(self, policies: Sequence[Object]) -> list[str]:
        """What gets through though it must not, or does not though it must, with these policies and no others. Open
        connections of the last round are compared as well: policies hold for them too."""
        self._write(policies)
        self._policies = list(policies)
        self._await_nodes()
        live = {trial.attempt for trial in self._live}
        wanted = {trial.attempt for trial in self._live if self._is_allowed(trial)}
        found = _compare("open ", wanted, self._reachability.flowing(live, wanted))
        wanted = {trial.attempt for trial in self._trials if self._is_allowed(trial)}
        # Only the servers of `Reachability` say something about data that is sent later.
        kept = {
            trial.attempt
            for trial in self._trials
            if trial.attempt.protocol == "TCP" and trial.target not in self._gateway_servers
        }
        reached = self._reachability.probe([trial.attempt for trial in self._trials], wanted, kept)
        self._live = [trial for trial in self._trials if trial.attempt in reached & kept]
        return found + _compare("", wanted, reached)

    def _is_allowed(self, trial: Trial) -> bool:
        source, target = self._ends[trial.source], self._ends[trial.target]
        protocol = trial.attempt.protocol
        return allowed(self._policies, self._namespaces, source, target, protocol, trial.port)

    def _write(self, policies: Sequence[Object]) -> None:
        system = self._cluster.server.system
        for namespace in NAMESPACES:
            self._cluster.must(system.delete(POLICIES.format(TENANT, namespace)))
        for policy in policies:
            path = POLICIES.format(TENANT, policy["metadata"]["namespace"])
            self._cluster.must(system.post(path, policy))

    def _await_nodes(self) -> None:
        """Waits until both nodes have applied all that was written before: a policy, the labels of a namespace and of
        a pod in each network are written last, each is seen after all of its kind, and only the three together give
        the rules that are waited for."""
        self._round += 1
        mark = {"round": str(self._round)}
        system, port = self._cluster.server.system, 1000 + self._round
        peer = {"namespaceSelector": {"matchLabels": mark}, "podSelector": {"matchLabels": mark}}
        spec = {"podSelector": {}, "ingress": [{"from": [peer], "ports": [{"port": port}]}]}
        path = POLICIES.format(TENANT, MARK)
        if self._round == 1:
            self._cluster.must(system.post(path, {"metadata": {"name": MARK}, "spec": spec}))
        else:
            self._cluster.must(system.patch(f"{path}/{MARK}", {"spec": spec}))
        self.relabel_namespace(MARK, mark)
        for pods in self._beacons.values():
            self._cluster.must(system.patch(pods[0].path, {"metadata": {"labels": mark}}))
        for pods in self._beacons.values():
            for pod in pods:
                wait_until(partial(_shows, pod, PortRange(Protocol.TCP, port, port)), 60.0)


def _shows(pod: AttachedPod, ports: PortRange) -> bool:
    """Whether the pod's ingress rules in the kernel are those with `ports`. Entries of endpoints are the last that
    have to do with policies, and are written all at once."""
    plane = pod.node.node.plane
    for veth in plane.state.veths:
        address = veth.addresses[0].ip
        if str(address) == pod.address and veth.ingress is not None:
            entry = plane.held.get(MapName.ENDPOINTS, {}).get(endpoint_key(veth.vni, address))
            is_wanted = any(rule.peers and rule.ports == (ports,) for rule in veth.ingress.rules)
            policy_in = ENDPOINT.unpack(entry)["policy_in"] if entry is not None else 0
            return is_wanted and policy_in == compile_profile(veth.ingress).name
    return False


def _compare(kind: str, wanted: set[Attempt], reached: set[Attempt]) -> list[str]:
    lost = [f"{kind}{each.name}: must pass and does not" for each in wanted - reached]
    return sorted([*lost, *(f"{kind}{each.name}: passes and must not" for each in reached - wanted)])

"""Reports of a network's flows and drops, with the names of pods, services and policies. Pure: no I/O.

Names come from the objects as they are now. An address that was assigned to its pod only after the flow has no name, and a
denial by rules that are no longer in force has no policy.
"""

from collections.abc import Iterable, Sequence
from ipaddress import ip_address

from msgspec import Struct
from msgspec.structs import replace

from alcove.agent.network.policies import DENIED
from alcove.agent.network.policy_evaluation import Profiles
from alcove.agent.podkey import PodKey
from alcove.api import meta, objects
from alcove.api.kinds.core.networks import network_of
from alcove.api.kinds.mizar import GATEWAY, SIMPLE
from alcove.api.node_api import FlowEnd, FlowPolicy, FlowReport, KernelTrace
from alcove.api.objects import Object
from alcove.dataplane.address import Address
from alcove.dataplane.drops import DropReason
from alcove.dataplane.dry_run import KernelVerdict
from alcove.dataplane.flows import TICK_SECONDS, ObservedDrop, ObservedFlow, tcp_flag_names
from alcove.dataplane.model import Protocol
from alcove.dataplane.policies import compile_profile
from alcove.network.endpoints import EndpointAllocation
from alcove.network.policy import NamedRules, SelectingPolicies, allows

FORWARDED, DROPPED = "forwarded", "dropped"
POLICIES_SHOWN_MAX = 8
POLICY_STEPS_MAX = 50_000
"""Comparisons with blocks of policies in one report of a network; flows after that are without their policies."""

_REASONS = {
    DropReason.NO_BACKEND: "the service has no ready endpoints",
    DropReason.NO_ENDPOINT: "no pod has this address",
    DropReason.NO_ROUTE: "the address is outside the network, which has no egress",
    DropReason.NO_NODE: "the node of this address no longer exists",
    DropReason.UNDERLAY: "pods cannot connect to nodes",
    DropReason.RATE_LIMIT: "the pod has exceeded its bandwidth limit",
    DropReason.SPOOFED_ADDRESS: "the source address is not the pod's own",
    DropReason.SPOOFED_MAC: "the source MAC address is not the pod's own",
    DropReason.SPOOFED_NEIGHBOR: "the pod answered for an address that is not its own",
    DropReason.MULTICAST: "networks have no multicast",
    DropReason.NO_SOURCE_PORT: "all source ports to this backend are in use",
    DropReason.NO_MEMORY: "the network has no table for its connections on this node",
}
_PROTOCOLS = {each.value: each.name for each in Protocol} | {Protocol.ICMPV6.value: "ICMPv6"}


class LocalPod(Struct, frozen=True):
    """A pod of the network on this node, with its policies."""

    key: PodKey
    addresses: tuple[Address, ...]
    profiles: Profiles
    policies: SelectingPolicies | None
    """None if they are not known; then everything new may be denied."""


class NetworkSnapshot(Struct, frozen=True):
    """What is known of a network at one moment."""

    tenant: str
    network: str
    allocations: Sequence[EndpointAllocation]
    services: Sequence[Object]
    """Of the tenant."""
    gateways: frozenset[Address]
    pods: Sequence[LocalPod]


def service_addresses(services: Iterable[Object], network: str) -> dict[Address, tuple[str, str]]:
    """Namespace and name of the network's services, by cluster IP."""
    addresses: dict[Address, tuple[str, str]] = {}
    for service in services:
        spec = service.get("spec") or {}
        if network_of(service) != network:
            continue
        for text in spec.get("clusterIPs") or [spec.get("clusterIP")]:
            if text and text != "None":
                addresses[ip_address(text)] = objects.namespace(service), objects.name(service)
    return addresses


class FlowReporter:
    """Makes the reports of one network. In a large network it takes long to make one: call it in a thread."""

    def __init__(self, snapshot: NetworkSnapshot) -> None:
        self._snapshot = snapshot
        self._allocations = {each.address: each for each in snapshot.allocations if each.address is not None}
        self._services = service_addresses(snapshot.services, snapshot.network)
        self._local = {address: pod for pod in snapshot.pods for address in pod.addresses}
        self._steps = POLICY_STEPS_MAX

    def _pod(self, address: Address | None) -> LocalPod | None:
        return self._local.get(address) if address is not None else None

    def flow(self, flow: ObservedFlow) -> FlowReport:
        service = flow.service
        return FlowReport(
            tenant=self._snapshot.tenant,
            network=self._snapshot.network,
            direction=self._direction(flow.source, flow.target),
            verdict=FORWARDED,
            protocol=protocol_name(flow.protocol),
            source=self._end(flow.source, flow.source_port, flow.end),
            destination=self._end(flow.target, flow.target_port, flow.end),
            start=flow.start,
            end=flow.end,
            service=self._end(service.address, service.port, flow.end) if service is not None else None,
            bytes_sent=flow.bytes,
            bytes_received=flow.bytes_back,
            packets_sent=flow.packets,
            packets_received=flow.packets_back,
            tcp_flags=tcp_flag_names(flow.tcp_flags),
            policies=() if flow.is_exempt else tuple(self._allowing(flow)),
        )

    def drop(self, drop: ObservedDrop) -> FlowReport:
        policies = tuple(self._denying(drop))
        return FlowReport(
            tenant=self._snapshot.tenant,
            network=self._snapshot.network,
            direction=self._direction(drop.source, drop.target),
            verdict=DROPPED,
            protocol=protocol_name(drop.protocol),
            source=self._end(drop.source, 0, drop.end),
            destination=self._end(drop.target, drop.target_port, drop.end),
            start=drop.start,
            end=drop.end,
            bytes_sent=drop.bytes,
            packets_sent=drop.packets,
            reason=reason_name(drop.reason),
            message=self._explain(drop, policies),
            policies=policies,
        )

    def kernel_trace(self, verdict: KernelVerdict, next_node: str, now: float) -> KernelTrace:
        end = self._end(verdict.target, verdict.port, now)
        if verdict.is_forwarded:
            return KernelTrace(FORWARDED, end, next_node, source=str(verdict.source))
        if verdict.drop is None:
            return KernelTrace(DROPPED, end, message="dropped for a reason that is not known")
        report = self.drop(verdict.drop)
        return KernelTrace(DROPPED, end, "", report.reason, report.message, report.policies)

    def _direction(self, source: Address | None, target: Address | None) -> str:
        if source in self._local:
            return "local" if target in self._local else "egress"
        return "ingress"

    def _end(self, address: Address | None, port: int, seen: float) -> FlowEnd:
        if address is None:
            return FlowEnd()
        text = str(address)
        if address in self._services:
            return FlowEnd(text, port, "Service", *self._services[address])
        if address in self._snapshot.gateways:
            return FlowEnd(text, port, "Gateway")
        found = self._allocations.get(address)
        if found is None or found.created > meta.format_time(seen + 2 * TICK_SECONDS):
            return FlowEnd(text, port)
        owner = found.owner
        if found.kind == SIMPLE and owner is not None and owner.tenant == self._snapshot.tenant:
            return FlowEnd(text, port, "Pod", owner.namespace, owner.name)
        return FlowEnd(text, port, "Gateway" if found.kind == GATEWAY else "")

    def _allowing(self, flow: ObservedFlow) -> Iterable[FlowPolicy]:
        """The first policy of each end on this node that allows the flow."""
        protocol = protocol_name(flow.protocol)
        source, target = self._local.get(flow.source), self._local.get(flow.target)
        if source is not None and source.policies is not None:
            name = self._first(source.policies.egress, flow.target, protocol, flow.target_port)
            yield from (FlowPolicy("egress", each, True) for each in name)
        if target is not None and target.policies is not None:
            name = self._first(target.policies.ingress, flow.source, protocol, flow.target_port)
            yield from (FlowPolicy("ingress", each, True) for each in name)

    def _first(self, policies: Sequence[NamedRules], peer: Address, protocol: str, port: int) -> list[str]:
        for each in policies:
            self._steps -= sum(1 + len(rule.peers or ()) for rule in each.rules)
            if self._steps < 0:
                return []
            if allows(each.rules, peer, protocol, port):
                return [each.policy]
        return []

    def _denying(self, drop: ObservedDrop) -> Iterable[FlowPolicy]:
        """The policies that select the pod whose rules denied it; none of them allows the flow."""
        if drop.reason is DropReason.POLICY_EGRESS:
            direction, ends = "egress", (drop.source, drop.target)
        elif drop.reason is DropReason.POLICY_INGRESS:
            direction, ends = "ingress", (drop.target, drop.source)
        else:
            return
        pods = (self._pod(end) for end in ends)
        for pod in pods:
            if pod is None or pod.policies is None:
                continue
            ingress, egress = pod.profiles
            profile = egress if direction == "egress" else ingress
            if profile is not None and compile_profile(profile).name == drop.policy:
                policies = pod.policies.egress if direction == "egress" else pod.policies.ingress
                yield from (FlowPolicy(direction, each.policy, False) for each in policies)
                return

    def _explain(self, drop: ObservedDrop, policies: Sequence[FlowPolicy]) -> str:
        if drop.reason not in (DropReason.POLICY_EGRESS, DropReason.POLICY_INGRESS):
            reason = _REASONS.get(drop.reason, reason_name(drop.reason))
            if drop.reason is DropReason.NO_ROUTE and drop.target in self._services:
                reason = "the service has no such port, or the node does not know it yet"
            return f"packets to {_place(drop)} dropped: {reason}"
        what = f"egress to {_place(drop)}"
        if drop.reason is DropReason.POLICY_INGRESS:
            what = f"ingress from {drop.source} to {_place(drop)}"
        if policies:
            return f"{what} denied by {_policy_names([each.policy for each in policies])}"
        if drop.policy == compile_profile(DENIED).name:
            return f"{what} denied: the pod's network policies deny everything, or are not known yet, or too many"
        return f"{what} denied by network policies that have changed since"


def _policy_names(names: list[str]) -> str:
    if len(names) == 1:
        return f"NetworkPolicy {names[0]}"
    shown = ", ".join(sorted(names)[:POLICIES_SHOWN_MAX])
    more = f" and {len(names) - POLICIES_SHOWN_MAX} more" if len(names) > POLICIES_SHOWN_MAX else ""
    return f"NetworkPolicies {shown}{more}: none of them allows it"


def _place(drop: ObservedDrop) -> str:
    if drop.target is None:
        return "unknown"
    if not drop.target_port:
        return str(drop.target)
    return (
        f"[{drop.target}]:{drop.target_port}"
        if drop.target.version == 6
        else f"{drop.target}:{drop.target_port}"
    )


def reason_name(reason: DropReason) -> str:
    """In the form of reasons in Kubernetes, such as `PolicyEgress`."""
    return "".join(word.capitalize() for word in reason.name.split("_"))


def protocol_name(number: int) -> str:
    return _PROTOCOLS.get(number) or str(number)


def within(report: FlowReport, namespace: str) -> FlowReport:
    """The report without names of other namespaces: its reader may be allowed to read this one only."""
    policies = tuple(each for each in report.policies if each.policy.startswith(f"{namespace}/"))
    message = report.message
    if len(policies) < len(report.policies) and message:
        message = message.partition(" denied ")[0] + " denied by network policies of another namespace"
    return replace(
        report,
        source=_within(report.source, namespace),
        destination=_within(report.destination, namespace),
        service=_within(report.service, namespace) if report.service is not None else None,
        policies=policies,
        message=message,
    )


def _that_passed(flows: Iterable[ObservedFlow], drops: Iterable[ObservedDrop]) -> Iterable[ObservedFlow]:
    """The flows without those that policy allowed, but of which no packet arrived: they are among the drops."""
    ends = {(each.source, each.target, each.target_port, each.protocol): each.end for each in drops}
    for flow in flows:
        dropped = ends.get((flow.source, flow.target, flow.target_port, flow.protocol), 0.0)
        if flow.packets_back or dropped < flow.start:
            yield flow


def _within(end: FlowEnd, namespace: str) -> FlowEnd:
    return end if end.namespace in ("", namespace) else FlowEnd(end.address, end.port)


class FlowSelection(Struct, frozen=True):
    """Which flows are asked for."""

    since: float = 0.0
    """Epoch seconds: only those with a packet since then."""
    verdict: str = ""
    namespace: str = ""
    """Only those with an end in this namespace."""
    pod: str = ""
    """Only those with an end of this name."""
    limit: int = 1_000

    def newest(
        self, flows: Iterable[ObservedFlow], drops: Iterable[ObservedDrop]
    ) -> list[ObservedFlow | ObservedDrop]:
        """Those of the requested verdict and time; the newest first."""
        lost = list(drops)
        chosen: list[ObservedFlow | ObservedDrop] = []
        if self.verdict != DROPPED:
            chosen += _that_passed(flows, lost)
        if self.verdict != FORWARDED:
            chosen += lost
        return sorted(
            (each for each in chosen if each.end >= self.since), key=lambda each: (-each.end, -each.start)
        )

    def has(self, report: FlowReport) -> bool:
        ends = [each for each in (report.source, report.destination, report.service) if each is not None]
        if self.namespace:
            ends = [each for each in ends if each.namespace == self.namespace]
        return bool(ends) and (not self.pod or any(each.name == self.pod for each in ends))

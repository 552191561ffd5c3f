"""A pod's rules as the data plane has them. Pure.

Selectors select pods, by their labels and the addresses that ring0 gave them, and what every network has without
pods: its DNS and the way to its API server, which are in the gateway of each node. So a policy that lets pods reach
`k8s-app: kube-dns` in `kube-system` lets them reach the DNS of their own network.
"""

from collections.abc import Iterable

from alcove.agent.network.fabric import Backing
from alcove.api import objects
from alcove.api.objects import Object
from alcove.dataplane.model import Block, PortRange, Profile, Protocol, Rule
from alcove.network import policy, wellknown
from alcove.network.endpoints import Holding
from alcove.network.policy import NamedPort, Peer, PodRules
from alcove.network.wellknown import API_NAMESPACE, DNS_NAMESPACE

DENIED = Profile()
"""Nothing may be opened."""

_DNS_PORTS = (NamedPort("dns", "UDP", 53), NamedPort("dns-tcp", "TCP", 53))
_API_PORTS = (NamedPort("https", "TCP", 6443),)


def own_peers(backing: Backing) -> list[Peer]:
    """What the network has in its gateways."""
    addresses = tuple(one.ip for one in backing.gateways)
    apps = ("kube-dns", wellknown.dns_name(backing.owner.name))
    api = {"component": "apiserver", "provider": "kubernetes"}
    return [
        *(
            Peer(namespace=DNS_NAMESPACE, labels={"k8s-app": app}, addresses=addresses, ports=_DNS_PORTS)
            for app in apps
        ),
        Peer(namespace=API_NAMESPACE, labels=api, addresses=addresses, ports=_API_PORTS),
    ]


def pod_peer(pod: Object, holdings: Iterable[Holding]) -> Peer:
    """A pod by its metadata, with the addresses and the names of ports that its endpoints tell."""
    found = list(holdings)
    return Peer(
        namespace=objects.namespace(pod),
        labels=objects.labels(pod),
        addresses=tuple(each.address for each in found if each.address is not None),
        ports=tuple(dict.fromkeys(port for each in found for port in each.ports)),
    )


def profiles(rules: PodRules) -> tuple[Profile | None, Profile | None]:
    """In and out."""
    return _profile(rules.ingress), _profile(rules.egress)


def _profile(rules: policy.Rules | None) -> Profile | None:
    return None if rules is None else Profile(tuple(_rule(rule) for rule in rules))


def _rule(rule: policy.Rule) -> Rule:
    peers = None if rule.peers is None else tuple(Block(each.network, each.excepts) for each in rule.peers)
    ports = None if rule.ports is None else tuple(_range(each) for each in rule.ports)
    return Rule(peers, ports)


def _range(ports: policy.Ports) -> PortRange:
    return PortRange(Protocol[ports.protocol], ports.low, ports.high)

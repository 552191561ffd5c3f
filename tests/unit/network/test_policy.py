"""NetworkPolicies: tables of decisions, and the compiled rules against a literal reading of the policies."""

from ipaddress import ip_address, ip_network
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alcove.api import selectors
from alcove.api.objects import Object
from alcove.network.policy import NamedPort, PolicyPeer, PolicySet, allows, peer_of

NAMESPACES = {
    "shop": {"kubernetes.io/metadata.name": "shop", "team": "a"},
    "bank": {"kubernetes.io/metadata.name": "bank", "team": "b"},
    "kube-system": {"kubernetes.io/metadata.name": "kube-system"},
}


def peer(namespace: str, address: str, *ports: NamedPort, **labels: str) -> PolicyPeer:
    return PolicyPeer(namespace=namespace, labels=labels, addresses=(ip_address(address),), ports=ports)


HTTP = NamedPort("http", "TCP", 8080)
PEERS = {
    "web": peer("shop", "10.0.0.2", HTTP, app="web", tier="front"),
    "db": peer("shop", "10.0.0.3", NamedPort("sql", "TCP", 5432), app="db", tier="back"),
    "teller": peer("bank", "10.0.0.4", NamedPort("http", "TCP", 9090), app="teller", tier="front"),
    "vault": peer("bank", "10.0.0.5", app="vault"),
    "dns": peer("kube-system", "10.96.0.10", NamedPort("dns", "UDP", 53), **{"k8s-app": "kube-dns"}),
}
WORLD = ip_address("203.0.113.9")


def policy(namespace: str = "shop", select: Object | None = None, **spec: Any) -> Object:
    return {"metadata": {"name": "p", "namespace": namespace}, "spec": {"podSelector": select or {}, **spec}}


def may(policies: list[Object], source: str, target: str, port: int = 8080, protocol: str = "TCP") -> bool:
    """Whether one may open a connection to the other, by both ends' rules. `world` is nobody's address."""
    compiled = PolicySet(policies, NAMESPACES, list(PEERS.values()))

    def address(name: str) -> Any:
        return WORLD if name == "world" else PEERS[name].addresses[0]

    out = source == "world" or allows(compiled.rules(PEERS[source]).egress, address(target), protocol, port)
    return out and (
        target == "world" or allows(compiled.rules(PEERS[target]).ingress, address(source), protocol, port)
    )


WEB = {"matchLabels": {"app": "web"}}
DENY_IN = policy(policyTypes=["Ingress"])
DENY_OUT = policy(policyTypes=["Egress"])


@pytest.mark.parametrize(
    ("policies", "allowed", "denied"),
    [
        pytest.param([], ["web>db", "world>web", "teller>web", "web>world"], [], id="nothing is isolated"),
        pytest.param([DENY_IN], ["web>world", "web>teller"], ["db>web", "world>db", "teller>web"], id="default deny ingress"),
        pytest.param([DENY_OUT], ["teller>web", "world>web"], ["web>db", "web>world", "db>teller"], id="default deny egress"),
        pytest.param([policy(policyTypes=["Ingress", "Egress"])], ["teller>vault"], ["web>db", "world>web", "web>teller"], id="default deny all, in its namespace only"),
        pytest.param([policy(ingress=[{}])], ["db>web", "world>web", "teller>db"], [], id="allow all ingress"),
        pytest.param([policy(egress=[{}], policyTypes=["Egress"])], ["web>world", "web>vault"], [], id="allow all egress"),
        pytest.param([policy(select=WEB)], ["web>db", "teller>db"], ["db>web"], id="only the selected pod is isolated"),
        pytest.param([policy(ingress=[{"from": [{"podSelector": WEB}]}])], ["web>db"], ["teller>db", "db>web", "world>db"], id="podSelector: the policy's own namespace"),
        pytest.param(
            [policy(ingress=[{"from": [{"podSelector": {"matchLabels": {"tier": "front"}}}]}])],
            ["web>db"], ["teller>db"], id="podSelector alone does not reach other namespaces",
        ),
        pytest.param(
            [policy(ingress=[{"from": [{"namespaceSelector": {"matchLabels": {"team": "b"}}}]}])],
            ["teller>web", "vault>web"], ["db>web", "world>web"], id="namespaceSelector: all pods of those",
        ),
        pytest.param(
            [policy(ingress=[{"from": [{"namespaceSelector": {}}]}])],
            ["teller>web", "db>web"], ["world>web"], id="every namespace is still only pods",
        ),
        pytest.param(
            [policy(ingress=[{"from": [{"namespaceSelector": {"matchLabels": {"team": "b"}}, "podSelector": {"matchLabels": {"app": "vault"}}}]}])],
            ["vault>web"], ["teller>web", "db>web"], id="both selectors in one peer: and",
        ),
        pytest.param(
            [policy(ingress=[{"from": [{"namespaceSelector": {"matchLabels": {"team": "b"}}}, {"podSelector": {"matchLabels": {"app": "db"}}}]}])],
            ["vault>web", "teller>web", "db>web"], ["world>web"], id="two peers: or",
        ),
        pytest.param(
            [policy(select={"matchExpressions": [{"key": "tier", "operator": "In", "values": ["front", "x"]}, {"key": "app", "operator": "NotIn", "values": ["db"]}]})],
            ["web>db"], ["db>web"], id="matchExpressions In and NotIn",
        ),
        pytest.param(
            [policy(select={"matchExpressions": [{"key": "tier", "operator": "Exists"}, {"key": "gone", "operator": "DoesNotExist"}]})],
            [], ["db>web", "web>db"], id="matchExpressions Exists and DoesNotExist",
        ),
        pytest.param(
            [policy(ingress=[{"from": [{"ipBlock": {"cidr": "203.0.113.0/24", "except": ["203.0.113.128/25"]}}]}])],
            ["world>web"], ["db>web"], id="ipBlock",
        ),
        pytest.param(
            [policy(ingress=[{"from": [{"ipBlock": {"cidr": "203.0.113.0/24", "except": ["203.0.113.8/29"]}}]}])],
            [], ["world>web"], id="ipBlock with the address excepted",
        ),
        pytest.param(
            [policy(select=WEB, ingress=[{"ports": [{"port": 8080}]}])],
            ["db>web", "world>web"], ["db>web:8081", "db>web/UDP"], id="a port, TCP by default",
        ),
        pytest.param(
            [policy(select=WEB, ingress=[{"ports": [{"port": 8000, "endPort": 8100, "protocol": "UDP"}]}])],
            ["db>web/UDP", "db>web:8000/UDP", "db>web:8100/UDP"], ["db>web", "db>web:8101/UDP", "db>web:7999/UDP"], id="a range of ports",
        ),
        pytest.param(
            [policy(select=WEB, ingress=[{"ports": [{"protocol": "SCTP"}]}])],
            ["db>web:1/SCTP", "db>web:65535/SCTP"], ["db>web"], id="all ports of a protocol",
        ),
        pytest.param(
            [policy(ingress=[{"ports": [{"port": "http"}]}])],
            ["db>web", "world>web"], ["web>db", "web>db:5432", "db>web:9090"], id="a named port is the selected pod's",
        ),
        pytest.param(
            [policy(select=WEB, egress=[{"to": [{"namespaceSelector": {}}], "ports": [{"port": "http"}]}], policyTypes=["Egress"])],
            ["web>teller:9090", "web>web"], ["web>teller", "web>db", "web>world"], id="in egress, a named port is each peer's",
        ),
        pytest.param(
            [policy(select=WEB, egress=[{"ports": [{"port": "http"}]}], policyTypes=["Egress"])],
            ["web>teller:9090"], ["web>teller", "web>world", "web>world:9090"], id="a named port of whoever is a pod's",
        ),
        pytest.param(
            [policy(select=WEB, egress=[{"to": [{"ipBlock": {"cidr": "0.0.0.0/0"}}], "ports": [{"port": "http"}, {"port": 443}]}], policyTypes=["Egress"])],
            ["web>world:443", "web>teller:443", "web>teller:9090"], ["web>teller", "web>world", "web>world:9090"], id="in a range, ports of pods have names, others none",
        ),
        pytest.param(
            [DENY_IN, policy(select=WEB, ingress=[{"from": [{"podSelector": {"matchLabels": {"app": "db"}}}]}])],
            ["db>web"], ["teller>web", "web>db"], id="policies add up",
        ),
        pytest.param(
            [DENY_OUT, policy(egress=[{"to": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}}, "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}}}], "ports": [{"port": 53, "protocol": "UDP"}]}], policyTypes=["Egress"])],
            ["web>dns:53/UDP"], ["web>dns:53", "web>db"], id="the network's DNS can be selected",
        ),
        pytest.param(
            [policy(egress=[{"to": [{"podSelector": {"matchLabels": {"app": "db"}}}]}])],
            [], ["web>teller", "teller>web", "web>db"], id="egress rules without policyTypes isolate both ways",
        ),
        pytest.param(
            [policy(ingress=[], policyTypes=["Ingress"])],
            [], ["db>web"], id="an empty list of rules allows nothing",
        ),
        pytest.param(
            [policy(ingress=[{"from": [], "ports": []}])],
            ["db>web", "world>web:1"], [], id="empty lists in a rule are no limit",
        ),
        pytest.param(
            [policy("bank", policyTypes=["Ingress"])],
            ["db>web"], ["web>teller"], id="another namespace's policy",
        ),
    ],
)  # fmt: skip
def test_verdicts(policies: list[Object], allowed: list[str], denied: list[str]) -> None:
    for expected, cases in ((True, allowed), (False, denied)):
        for case in cases:
            path, _, protocol = case.partition("/")
            ends, _, port = path.partition(":")
            source, _, target = ends.partition(">")
            found = may(policies, source, target, int(port or 8080), protocol or "TCP")
            assert found is expected, case


def test_only_ones_own_network_is_known() -> None:
    """The same policy in two networks: a peer of one is nobody in the other."""
    mine, theirs = peer("shop", "10.0.0.2", app="web"), peer("shop", "10.0.0.9", app="web")
    everybody = [policy(ingress=[{"from": [{"podSelector": {}}]}])]
    rules = PolicySet(everybody, NAMESPACES, [mine]).rules(mine)
    assert not allows(rules.ingress, theirs.addresses[0], "TCP", 80)
    assert allows(rules.ingress, mine.addresses[0], "TCP", 80)


def test_pods_as_peers() -> None:
    pod = {
        "metadata": {"namespace": "shop", "labels": {"app": "web"}},
        "spec": {
            "initContainers": [
                {"name": "i", "ports": [{"name": "gone", "containerPort": 1}]},
                {"name": "s", "restartPolicy": "Always", "ports": [{"name": "mesh", "containerPort": 15001}]},
            ],
            "containers": [
                {"name": "c", "ports": [{"name": "http", "containerPort": 8080}, {"containerPort": 9}]},
                {"name": "d", "ports": [{"name": "dns", "containerPort": 53, "protocol": "UDP"}]},
            ],
        },
    }
    found = peer_of(pod, [ip_address("10.0.0.2"), ip_address("fd00::2")])
    assert found.ports == (HTTP, NamedPort("dns", "UDP", 53), NamedPort("mesh", "TCP", 15001))
    assert (found.namespace, found.labels, len(found.addresses)) == ("shop", {"app": "web"}, 2)


# A literal reading, pair by pair, against the compiled rules.

_labels = st.dictionaries(st.sampled_from(["a", "b"]), st.sampled_from(["1", "2"]), max_size=2)
_selector = st.fixed_dictionaries(
    {},
    optional={
        "matchLabels": _labels,
        "matchExpressions": st.lists(
            st.one_of(
                st.builds(
                    lambda key, operator, values: {"key": key, "operator": operator, "values": values},
                    st.sampled_from(["a", "b"]),
                    st.sampled_from(["In", "NotIn"]),
                    st.lists(st.sampled_from(["1", "2"]), min_size=1, max_size=2),
                ),
                st.builds(
                    lambda key, operator: {"key": key, "operator": operator},
                    st.sampled_from(["a", "b"]),
                    st.sampled_from(["Exists", "DoesNotExist"]),
                ),
            ),
            max_size=2,
        ),
    },
)
_peer = st.one_of(
    st.builds(lambda s: {"podSelector": s}, _selector),
    st.builds(lambda s: {"namespaceSelector": s}, _selector),
    st.builds(lambda s, n: {"podSelector": s, "namespaceSelector": n}, _selector, _selector),
    st.sampled_from(
        [
            {"ipBlock": {"cidr": "10.0.0.0/29"}},
            {"ipBlock": {"cidr": "0.0.0.0/0", "except": ["10.0.0.0/30", "203.0.113.0/24"]}},
        ]
    ),
)
_port = st.sampled_from(
    [
        {"port": 80},
        {"port": 70, "endPort": 90},
        {"port": "http"},
        {"protocol": "UDP"},
        {"port": 80, "protocol": "UDP"},
    ]
)
_policies = st.lists(
    st.builds(
        lambda namespace, select, ingress, egress, types: policy(
            namespace, select, ingress=ingress, egress=egress, **({"policyTypes": types} if types else {})
        ),
        st.sampled_from(["x", "y"]),
        _selector,
        st.lists(st.fixed_dictionaries({}, optional={"from": st.lists(_peer, max_size=2), "ports": st.lists(_port, max_size=2)}), max_size=2),
        st.lists(st.fixed_dictionaries({}, optional={"to": st.lists(_peer, max_size=2), "ports": st.lists(_port, max_size=2)}), max_size=2),
        st.sampled_from([[], ["Ingress"], ["Egress"], ["Ingress", "Egress"]]),
    ),
    max_size=3,
)  # fmt: skip
_peers = st.lists(
    st.tuples(st.sampled_from(["x", "y"]), _labels, st.sampled_from([(), (80,), (81,)])),
    min_size=2,
    max_size=4,
).map(
    lambda given: [
        PolicyPeer(
            namespace=namespace,
            labels=labels,
            addresses=(ip_address(f"10.0.0.{number + 2}"),),
            ports=tuple(NamedPort("http", "TCP", port) for port in ports),
        )
        for number, (namespace, labels, ports) in enumerate(given)
    ]
)


def literally(
    policies: list[Object], namespaces: dict[str, dict[str, str]], pod: PolicyPeer, direction: str,
    other: PolicyPeer | None, address: Any, target: PolicyPeer | None, protocol: str, port: int,
) -> bool:  # fmt: skip
    """As the documentation has it. `other` is who has the address, `target` whose port it is."""
    field = {"ingress": "from", "egress": "to"}[direction]
    applying = []
    for each in policies:
        spec = each["spec"]
        types = spec.get("policyTypes") or (["Ingress", "Egress"] if spec.get("egress") else ["Ingress"])
        selects = selectors.from_object(spec["podSelector"]).matches(pod.labels)
        if each["metadata"]["namespace"] == pod.namespace and selects and direction.title() in types:
            applying.append(each)
    if not applying:
        return True

    def is_peer(each: Object, given: Object) -> bool:
        if "ipBlock" in given:
            block = given["ipBlock"]
            inside = address in ip_network(block["cidr"])
            return inside and not any(address in ip_network(cut) for cut in block.get("except", ()))
        if other is None:
            return False
        if "namespaceSelector" in given:
            wanted = selectors.from_object(given["namespaceSelector"])
            if not wanted.matches(namespaces[other.namespace]):
                return False
        elif other.namespace != each["metadata"]["namespace"]:
            return False
        return selectors.from_object(given.get("podSelector", {})).matches(other.labels)

    def is_port(given: Object) -> bool:
        if given.get("protocol", "TCP") != protocol:
            return False
        number: Any = given.get("port")
        if isinstance(number, str):
            names = target.ports if target else ()
            return any(p.name == number and p.protocol == protocol and p.number == port for p in names)
        return number is None or bool(number <= port <= given.get("endPort", number))

    return any(
        (not rule.get(field) or any(is_peer(each, given) for given in rule[field]))
        and (not rule.get("ports") or any(is_port(given) for given in rule["ports"]))
        for each in applying
        for rule in each["spec"].get(direction) or ()
    )


@settings(max_examples=3 * settings().max_examples, deadline=None)
@given(policies=_policies, peers=_peers, labels=st.tuples(_labels, _labels))
def test_the_compiled_rules_say_what_the_policies_say(
    policies: list[Object], peers: list[PolicyPeer], labels: tuple[dict[str, str], dict[str, str]]
) -> None:
    namespaces = {"x": labels[0], "y": labels[1]}
    compiled = PolicySet(policies, namespaces, peers)
    ends: list[tuple[PolicyPeer | None, Any]] = [
        *((each, each.addresses[0]) for each in peers),
        (None, WORLD),
    ]
    for pod in peers:
        rules = compiled.rules(pod)
        for other, address in ends:
            for protocol, port in (("TCP", 80), ("TCP", 81), ("TCP", 75), ("UDP", 80), ("UDP", 5)):
                case = (protocol, port)
                inward = literally(policies, namespaces, pod, "ingress", other, address, pod, *case)
                outward = literally(policies, namespaces, pod, "egress", other, address, other, *case)
                assert allows(rules.ingress, address, *case) is inward
                assert allows(rules.egress, address, *case) is outward

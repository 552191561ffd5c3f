"""Proposed policies allow what was seen, and nothing else: a law over pods, labels and flows."""

from ipaddress import ip_address

from hypothesis import given, settings
from hypothesis import strategies as st

from alcove.api.objects import Object
from alcove.network.policy import PolicySet, allows, peer_of
from alcove.network.policy_proposal import propose, workload_of
from alcove.network.trace import addresses_of

NAMESPACES = ("shop", "ops")
LABELS = {name: {"kubernetes.io/metadata.name": name} for name in NAMESPACES}
PORTS = (80, 5432)
OUTSIDE = "192.0.2.7"


def pod(number: int, namespace: str, labels: dict[str, str]) -> Object:
    return {
        "metadata": {
            "name": f"p{number}",
            "namespace": namespace,
            "labels": {**labels, "pod-template-hash": str(number)},
        },
        "spec": {"containers": []},
        "status": {"phase": "Running", "podIP": f"10.0.0.{number + 1}"},
    }


def end(of: Object, port: int = 0) -> Object:
    metadata = of["metadata"]
    address = of["status"]["podIP"]
    return {
        "kind": "Pod",
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "address": address,
        "port": port,
    }


def flow(source: Object, target: Object, protocol: str = "TCP", verdict: str = "forwarded") -> Object:
    return {"source": source, "destination": target, "protocol": protocol, "verdict": verdict}


labels = st.fixed_dictionaries(
    {"app": st.sampled_from(["web", "db"])}, optional={"tier": st.sampled_from(["a", "b"])}
)
worlds = st.lists(st.tuples(st.sampled_from(NAMESPACES), labels), min_size=2, max_size=6)
calls = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.sampled_from(PORTS)), max_size=8)


@settings(max_examples=60, deadline=None)
@given(worlds, calls)
def test_exactly_what_was_seen_is_allowed(
    world: list[tuple[str, dict[str, str]]], seen: list[tuple[int, int, int]]
) -> None:
    pods = [pod(number, *each) for number, each in enumerate(world)]
    flows = [
        flow(end(pods[one % len(pods)]), end(pods[other % len(pods)], port)) for one, other, port in seen
    ]
    proposal = propose(pods, flows)
    assert proposal.left_out == []
    peers = [peer_of(each, addresses_of(each)) for each in pods]
    policies = PolicySet(proposal.policies, LABELS, peers)
    of_workloads = {
        (workload_of(pods[one % len(pods)]), workload_of(pods[other % len(pods)]), port)
        for one, other, port in seen
    }
    concerned = {each for one, other, _ in of_workloads for each in (one, other)}
    for source in pods:
        for target in pods:
            for port in PORTS:
                if not {workload_of(source), workload_of(target)} <= concerned:
                    continue
                out = policies.rules(peer_of(source, addresses_of(source))).egress
                into = policies.rules(peer_of(target, addresses_of(target))).ingress
                passes = allows(out, addresses_of(target)[0], "TCP", port) and allows(
                    into, addresses_of(source)[0], "TCP", port
                )
                assert passes == ((workload_of(source), workload_of(target), port) in of_workloads)


def test_the_world_and_the_networks_own_servers_have_their_peers() -> None:
    web = pod(1, "shop", {"app": "Web_1"})
    gateway = {"kind": "Gateway", "address": "10.0.0.254"}
    flows = [
        flow(end(web), {"address": OUTSIDE, "port": 443}),
        flow(end(web), {**gateway, "port": 53}, "UDP"),
        flow(gateway, end(web, 8080)),
        flow(end(web), {"address": "10.0.0.9", "port": 80}, verdict="dropped"),
    ]
    [policy] = propose([web], flows).policies
    assert policy["metadata"] == {"name": "web-1-seen", "namespace": "shop"}
    assert policy["spec"]["ingress"] == [], "the gateway needs no rule"
    dns, world = policy["spec"]["egress"][1], policy["spec"]["egress"][0]
    assert world == {
        "to": [{"ipBlock": {"cidr": f"{OUTSIDE}/32"}}],
        "ports": [{"protocol": "TCP", "port": 443}],
    }
    assert dns["to"][0]["podSelector"] == {"matchLabels": {"k8s-app": "kube-dns"}}
    assert ip_address(OUTSIDE).version == 4


def test_what_policies_cannot_say_is_listed() -> None:
    bare, web = pod(1, "shop", {}), pod(2, "shop", {"app": "web"})
    flows = [
        flow(end(bare), end(web, 80)),
        flow(end(web), {**end(pod(3, "shop", {})), "port": 80}),
        flow(end(web), end(bare), "ICMP"),
    ]
    proposal = propose([bare, web], flows)
    assert len(proposal.left_out) == 3
    [policy] = proposal.policies
    assert policy["spec"]["podSelector"] == {"matchLabels": {"app": "web"}}


def test_only_the_namespaces_that_were_asked_for_get_policies() -> None:
    web, mon = pod(1, "shop", {"app": "web"}), pod(2, "ops", {"app": "mon"})
    [policy] = propose([web, mon], [flow(end(mon), end(web, 80))], frozenset({"shop"})).policies
    assert policy["metadata"]["namespace"] == "shop"
    [rule] = policy["spec"]["ingress"]
    assert rule["from"][0]["namespaceSelector"] == {"matchLabels": {"kubernetes.io/metadata.name": "ops"}}

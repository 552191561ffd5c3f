"""Names and reasons of flows, and what a reader of one namespace does not see."""

from ipaddress import ip_address, ip_network

from alcove.agent.network.flow_reports import (
    POLICY_STEPS_MAX,
    FlowReporter,
    FlowSelection,
    LocalPod,
    NetworkSnapshot,
    protocol_name,
    within,
)
from alcove.agent.network.policies import DENIED, profiles
from alcove.agent.podkey import PodKey
from alcove.api.ids import TenantId
from alcove.client.keys import HOME
from alcove.dataplane.drops import DropReason
from alcove.dataplane.flows import ObservedDrop, ObservedFlow
from alcove.dataplane.policies import compile_profile
from alcove.network.endpoints import EndpointAllocation
from alcove.network.owners import OwnerRef
from alcove.network.policy import IpBlock, NamedRules, PolicyPeerRule, PolicyPorts, SelectingPolicies

WEB, DB, VIP, OTHERS = (ip_address(f"10.0.0.{number}") for number in (5, 9, 100, 77))
ACME = TenantId("acme")


def rules(name: str, *peers: str, port: int = 5432) -> NamedRules:
    blocks = tuple(IpBlock(ip_network(each)) for each in peers)
    return NamedRules(name, (PolicyPeerRule(blocks, (PolicyPorts("TCP", port, port),)),) if peers else ())


def allocation(name: str, address: object, tenant: str = ACME, created: str = "") -> EndpointAllocation:
    owner = OwnerRef(TenantId(tenant), *name.split("/"))
    return EndpointAllocation(name, "simple", name, owner, 7, address, created=created)  # type: ignore[arg-type]


def reporter(policies: SelectingPolicies, *more: EndpointAllocation) -> FlowReporter:
    """Of a node that has the pod `db/postgres`."""
    pod = LocalPod(PodKey(HOME, ACME, "db", "postgres", "u"), (DB,), profiles(policies.rules()), policies)
    allocations = [allocation("shop/web", WEB), allocation("db/postgres", DB), *more]
    metadata = {"namespace": "db", "name": "sql"}
    service = {"metadata": metadata, "spec": {"clusterIP": str(VIP), "network": "own"}}
    return FlowReporter(NetworkSnapshot("acme", "own", allocations, [service], frozenset(), [pod]))


def flow(**changes: object) -> ObservedFlow:
    fields = {"source": WEB, "target": DB, "source_port": 999, "target_port": 5432, "protocol": 6}
    counts = {"bytes": 1, "bytes_back": 2, "packets": 3, "packets_back": 4, "tcp_flags": 2}
    return ObservedFlow(**{**fields, **counts, "start": 1e9, "end": 1e9, **changes})  # type: ignore[arg-type]


def drop(policies: SelectingPolicies, **changes: object) -> ObservedDrop:
    """As the rules of these policies deny it."""
    ingress, _ = profiles(policies.rules())
    name = compile_profile(ingress).name if ingress is not None else 0
    fields = {"reason": DropReason.POLICY_INGRESS, "source": WEB, "target": DB, "target_port": 5432}
    counts = {"protocol": 6, "bytes": 60, "packets": 1, "start": 1e9, "end": 1e9, "policy": name}
    return ObservedDrop(**{**fields, **counts, **changes})  # type: ignore[arg-type]


def test_the_policy_that_allows_a_flow_is_named() -> None:
    policies = SelectingPolicies(ingress=(rules("db/none"), rules("db/only-web", "10.0.0.5/32")))
    report = reporter(policies).flow(flow())
    assert [(each.direction, each.policy, each.allows) for each in report.policies] == [
        ("ingress", "db/only-web", True)
    ]
    assert (report.source.namespace, report.source.name, report.direction) == ("shop", "web", "ingress")
    assert reporter(policies).flow(flow(is_exempt=True)).policies == ()


def test_a_policy_of_many_blocks_is_not_compared_without_end() -> None:
    many = tuple(IpBlock(ip_network((n << 8, 24))) for n in range(POLICY_STEPS_MAX // 4))
    policies = SelectingPolicies(ingress=(NamedRules("db/many", (PolicyPeerRule(many, None),)),))
    made = reporter(policies)
    for _ in range(8):
        report = made.flow(flow(source=OTHERS))
    assert report.policies == ()


def test_all_policies_that_select_the_pod_deny_together() -> None:
    one = SelectingPolicies(ingress=(rules("db/only-web", "10.0.0.5/32"),))
    message = reporter(one).drop(drop(one, source=OTHERS)).message
    assert message == "ingress from 10.0.0.77 to 10.0.0.9:5432 denied by NetworkPolicy db/only-web"
    two = SelectingPolicies(ingress=(rules("db/b"), rules("db/a")))
    message = reporter(two).drop(drop(two)).message
    assert message.endswith("denied by NetworkPolicies db/a, db/b: none of them allows it")


def test_rules_that_have_changed_since_are_not_blamed() -> None:
    old = SelectingPolicies(ingress=(rules("db/old", "10.0.0.77/32"),))
    new = SelectingPolicies(ingress=(rules("db/new", "10.0.0.5/32"),))
    report = reporter(new).drop(drop(old))
    assert report.policies == () and "have changed since" in report.message
    closed = reporter(new).drop(drop(old, policy=compile_profile(DENIED).name))
    assert "deny everything" in closed.message


def test_other_reasons_are_sentences_too() -> None:
    report = reporter(SelectingPolicies()).drop(
        drop(SelectingPolicies(), reason=DropReason.NO_BACKEND, target=VIP, target_port=80)
    )
    assert (report.reason, report.destination.kind, report.destination.name) == (
        "NoBackend",
        "Service",
        "sql",
    )
    assert report.message == "packets to 10.0.0.100:80 dropped: the service has no ready endpoints"


def test_names_are_of_the_own_tenant_and_not_of_a_later_pod() -> None:
    made = reporter(
        SelectingPolicies(),
        allocation("x/theirs", OTHERS, tenant="beta"),
        allocation("x/later", ip_address("10.0.0.88"), created="2030-01-01T00:00:00Z"),
    )
    assert made.flow(flow(source=OTHERS)).source.name == ""
    assert made.flow(flow(source=ip_address("10.0.0.88"))).source.name == ""


def test_a_reader_of_one_namespace_sees_no_names_of_others() -> None:
    policies = SelectingPolicies(ingress=(rules("db/secret", "10.0.0.77/32"),))
    seen = within(reporter(policies).drop(drop(policies)), "shop")
    assert (seen.source.name, seen.destination.name, seen.policies) == ("web", "", ())
    assert (
        seen.message
        == "ingress from 10.0.0.5 to 10.0.0.9:5432 denied by network policies of another namespace"
    )
    own = within(reporter(policies).drop(drop(policies)), "db")
    assert own.source.name == "" and "db/secret" in own.message


def test_a_selection_takes_the_newest_first() -> None:
    old, new = flow(end=1.0), flow(end=2.0)
    lost = drop(SelectingPolicies(), end=3.0)
    assert FlowSelection().newest([old, new], [lost]) == [lost, new, old]
    assert FlowSelection(since=2.0, verdict="forwarded").newest([old, new], [lost]) == [new]
    assert FlowSelection(verdict="dropped").newest([old, new], [lost]) == [lost]
    report = reporter(SelectingPolicies()).flow(new)
    assert FlowSelection(namespace="shop", pod="web").has(report)
    assert not FlowSelection(namespace="shop", pod="postgres").has(report)
    assert not FlowSelection(namespace="elsewhere").has(report)


def test_a_connection_that_was_allowed_and_lost_is_not_forwarded() -> None:
    lost = drop(SelectingPolicies(), reason=DropReason.NO_ROUTE, end=5.0)
    silent, answered = flow(packets_back=0, start=4.0), flow(start=4.0)
    assert FlowSelection(verdict="forwarded").newest([silent], [lost]) == []
    assert FlowSelection().newest([silent], [lost]) == [lost]
    assert FlowSelection(verdict="forwarded").newest([answered], [lost]) == [answered]
    later = flow(packets_back=0, start=6.0)
    assert FlowSelection(verdict="forwarded").newest([later], [lost]) == [later]


def test_protocols_have_names() -> None:
    assert [protocol_name(number) for number in (6, 58, 47)] == ["TCP", "ICMPv6", "47"]

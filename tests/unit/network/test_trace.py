"""What a trace says of packets that pass, and of those that do not."""

from typing import Any

import pytest

from alcove.api.objects import Object
from alcove.network.trace import (
    DEPENDS,
    DROPPED,
    FORWARDED,
    TenantObjects,
    Trace,
    TraceFailure,
    TraceRequest,
    trace,
)

OWN = {"metadata": {"name": "own"}, "spec": {"ip": "10.0.0.0", "prefix": 16, "egress": {"enabled": True}}}
CLOSED = {"metadata": {"name": "closed"}, "spec": {"ip": "10.1.0.0", "prefix": 16}}
NAMESPACES = [{"metadata": {"name": name, "labels": {"team": name}}} for name in ("shop", "db")]


def pod(namespace: str, name: str, ip: str, network: str = "own", node: str = "n1") -> Object:
    metadata = {"namespace": namespace, "name": name, "labels": {"app": name}}
    containers = [{"name": "c", "ports": [{"name": "sql", "containerPort": 5432}]}]
    spec = {"network": network, "nodeName": node, "containers": containers}
    return {"metadata": metadata, "spec": spec, "status": {"podIPs": [{"ip": ip}] if ip else []}}


WEB, DB = pod("shop", "web", "10.0.0.5"), pod("db", "postgres", "10.0.0.9", node="n2")
OTHER, CLOSED_WEB = pod("db", "other", "10.1.0.9", "closed"), pod("shop", "closed", "10.1.0.5", "closed")
SERVICE: Object = {
    "metadata": {"namespace": "db", "name": "sql"},
    "spec": {"network": "own", "clusterIP": "172.20.0.7", "ports": [{"name": "sql", "port": 80}]},
}


def endpoints(*addresses: str, ready: bool = True) -> Object:
    return {
        "metadata": {"namespace": "db", "name": "sql-1", "labels": {"kubernetes.io/service-name": "sql"}},
        "ports": [{"name": "sql", "port": 5432}],
        "endpoints": [{"addresses": [each], "conditions": {"ready": ready}} for each in addresses],
    }


def policy(namespace: str, name: str, **spec: Any) -> Object:
    types = [word.capitalize() for word in ("ingress", "egress") if word in spec]
    return {
        "metadata": {"namespace": namespace, "name": name},
        "spec": {"podSelector": {}, "policyTypes": types, **spec},
    }


def traced(to: str, port: int = 5432, *policies: Object, source: str = "web", **more: Any) -> Trace:
    tenant = TenantObjects(
        [WEB, DB, OTHER, CLOSED_WEB, pod("db", "second", "10.0.0.10"), pod("db", "starting", "")],
        [SERVICE],
        more.pop("slices", [endpoints("10.0.0.9")]),
        policies,
        NAMESPACES,
        [OWN, CLOSED],
    )
    return trace(tenant, TraceRequest(("shop", source), to, port, **more))


def last(found: Trace) -> str:
    return found.steps[-1].message


def test_without_policies_a_packet_arrives_and_the_way_is_told() -> None:
    found = traced("db/postgres")
    assert found.verdict == FORWARDED
    assert [step.stage for step in found.steps] == [
        "source",
        "destination",
        "egress policy",
        "ingress policy",
        "delivery",
    ]
    assert last(found) == "to pod db/postgres (10.0.0.9:5432), by the tunnel from n1 to n2"


def test_the_policy_and_rule_that_allow_are_named_and_so_is_what_denies() -> None:
    shop = {"namespaceSelector": {"matchLabels": {"team": "shop"}}}
    guard = policy(
        "db", "guard", ingress=[{"ports": [{"port": 1}]}, {"from": [shop], "ports": [{"port": "sql"}]}]
    )
    allowed = traced("db/postgres", 5432, policy("db", "nothing", ingress=[]), guard)
    assert allowed.verdict == FORWARDED
    assert "allowed by NetworkPolicy db/guard, ingress rule 2" in [step.message for step in allowed.steps]
    denied = traced("db/postgres", 5433, policy("db", "nothing", ingress=[]), guard)
    assert denied.verdict == DROPPED
    [step] = [step for step in denied.steps if not step.passes]
    assert step.stage == "ingress policy" and step.message.endswith("none allows it: db/guard, db/nothing")
    leaving = traced("db/postgres", 5432, policy("shop", "silent", egress=[]))
    assert [step.stage for step in leaving.steps if not step.passes] == ["egress policy"]


@pytest.mark.parametrize("to", ["db/sql", "172.20.0.7"])
def test_a_service_is_followed_to_its_backends(to: str) -> None:
    found = traced(to, 80)
    assert found.verdict == FORWARDED
    assert [step.stage for step in found.steps][:3] == ["source", "dns", "service"]
    assert found.steps[2].message == "service db/sql:80 becomes its backend: 10.0.0.9:5432"
    assert traced("db/sql", 0).verdict == FORWARDED, "it has one port only"
    assert "it has 80/TCP" in last(traced("db/sql", 81))
    assert last(traced(to, 80, slices=[endpoints("10.0.0.9", ready=False)])).endswith("no ready endpoints")


def test_backends_may_differ() -> None:
    only = {"podSelector": {"matchLabels": {"app": "postgres"}}, "ingress": []}
    found = traced("db/sql", 80, policy("db", "one", **only), slices=[endpoints("10.0.0.9", "10.0.0.10")])
    assert found.verdict == DEPENDS


def test_networks_are_not_connected_and_unused_addresses_lead_nowhere() -> None:
    assert last(traced("db/other")).endswith("networks are not connected")
    assert last(traced("10.0.3.3")).startswith("no pod and no service")
    assert last(traced("db/starting")) == "pod db/starting has no address yet"


def test_what_leaves_the_network_needs_egress_and_a_public_address() -> None:
    assert traced("8.8.8.8", 53).verdict == FORWARDED
    assert traced("192.168.1.1", 53).verdict == DROPPED
    closed = traced("8.8.8.8", 53, source="closed")
    assert closed.verdict == DROPPED and "no egress" in last(closed)


def test_what_does_not_exist_is_said() -> None:
    with pytest.raises(TraceFailure, match='pod "nobody" not found in namespace "shop"'):
        traced("db/postgres", source="nobody")
    with pytest.raises(TraceFailure, match='neither a service nor a pod "x" found in namespace "shop"'):
        traced("x")


@pytest.mark.parametrize(
    "to", ["sql.db", "sql.db.svc", "sql.db.svc.cluster.local", "sql.db.svc.cluster.local."]
)
def test_a_services_dns_name_is_followed_to_its_backend(to: str) -> None:
    found = traced(to, 80)
    assert (found.verdict, found.dialed, found.targets) == (
        FORWARDED,
        ("172.20.0.7", 80),
        (("10.0.0.9", 5432),),
    )


def test_a_name_that_is_no_services_has_to_be_looked_up() -> None:
    with pytest.raises(TraceFailure, match="look up its address"):
        traced("www.example.com", 443)

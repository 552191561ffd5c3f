"""What a trace says of packets that pass, and of those that do not."""

from typing import Any

import pytest

from alcove.api.objects import Object
from alcove.network.trace import (
    DEPENDS,
    DROPPED,
    FORWARDED,
    NameLookup,
    TenantObjects,
    Trace,
    TraceFailure,
    TraceRequest,
    trace,
)

OWN = {"metadata": {"name": "own"}, "spec": {"ip": "10.0.0.0", "prefix": 16, "egress": {"enabled": True}}}
CLOSED = {"metadata": {"name": "closed"}, "spec": {"ip": "10.1.0.0", "prefix": 16}}
NAMESPACES = [
    {"metadata": {"name": name, "labels": {"team": name}}} for name in ("shop", "db", "kube-system")
]


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
        more.pop("services", [SERVICE]),
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
    assert found.lookup == NameLookup("sql.db.svc", ("172.20.0.7",))
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
    unknown = traced("www.example.com", 443)
    assert (unknown.verdict, unknown.lookup) == (DROPPED, NameLookup("www.example.com", None))
    assert last(unknown) == "no service or pod of the tenant has the name www.example.com"
    found = traced("www.example.com", 443, resolved=("8.8.8.8", "9.9.9.9"))
    assert (found.verdict, found.dialed, found.lookup) == (FORWARDED, ("8.8.8.8", 443), unknown.lookup)
    assert found.steps[1].message == "www.example.com is 8.8.8.8, 9.9.9.9, by DNS"
    # A name with two labels may be a service's of a namespace, or not.
    assert traced("example.com", 443).lookup == NameLookup("example.com", None)
    inside = traced("10-0-0-9.db.pod.cluster.local", 5432, resolved=("10.0.0.9",))
    assert last(inside).startswith("to pod db/postgres")
    alias = traced("kubernetes.default.svc", 80, resolved=("172.20.0.7",))
    assert (alias.verdict, alias.dialed) == (FORWARDED, ("172.20.0.7", 80))
    assert alias.lookup == NameLookup("kubernetes.default.svc", None)


def test_a_headless_services_packets_keep_the_port_that_was_dialed() -> None:
    headless = {**SERVICE["spec"], "clusterIP": "None"}
    found = traced("db/sql", 80, services=[{**SERVICE, "spec": headless}])
    assert (found.dialed, found.targets) == (("10.0.0.9", 80), (("10.0.0.9", 80),))
    assert found.lookup == NameLookup("sql.db.svc", ("10.0.0.9",))
    assert found.steps[2].message.startswith("service db/sql:80 is headless: packets go to its backend")
    closed = policy("db", "sql-only", ingress=[{"ports": [{"port": 5432}]}])
    assert traced("db/sql", 80, closed, services=[{**SERVICE, "spec": headless}]).verdict == DROPPED


def own_service(namespace: str, name: str, ip: str, port: int, target: int, protocol: str) -> Object:
    """One of the services that a network has by itself: it has no endpoints."""
    ports = [{"port": port, "targetPort": target, "protocol": protocol}]
    metadata = {"namespace": namespace, "name": name, "labels": {"k8s-app": name}}
    return {"metadata": metadata, "spec": {"network": "own", "clusterIP": ip, "ports": ports}}


@pytest.mark.parametrize(
    ("to", "port", "protocol", "dialed"),
    [
        ("kubernetes.default", 443, "TCP", "172.20.0.1"),
        ("default/kubernetes-own", 443, "TCP", "172.20.0.1"),
        ("kube-dns.kube-system.svc.cluster.local", 53, "UDP", "172.20.0.10"),
    ],
)
def test_a_networks_own_servers_are_reached_by_their_usual_names(
    to: str, port: int, protocol: str, dialed: str
) -> None:
    services = [
        own_service("default", "kubernetes-own", "172.20.0.1", 443, 6443, "TCP"),
        own_service("kube-system", "kube-dns-own", "172.20.0.10", 53, 53, "UDP"),
        {"metadata": {"namespace": "default", "name": "kubernetes"}, "spec": {"network": "default"}},
    ]
    found = traced(to, port, services=services, protocol=protocol)
    assert (found.verdict, found.dialed) == (FORWARDED, (dialed, port))
    assert last(found) == "to the network's own server on n1"
    silent = policy("shop", "silent", egress=[])
    assert traced(to, port, silent, services=services, protocol=protocol).verdict == DROPPED
    peer = {"namespaceSelector": {}, "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}}}
    only_dns = policy("shop", "dns", egress=[{"to": [peer]}])
    expected = FORWARDED if port == 53 else DROPPED
    assert traced(to, port, only_dns, services=services, protocol=protocol).verdict == expected


def test_an_external_name_is_looked_up() -> None:
    spec = {"network": "own", "type": "ExternalName", "externalName": "db.example.org"}
    service = {**SERVICE, "spec": spec}
    unknown = traced("db/sql", 5432, services=[service])
    assert unknown.lookup == NameLookup("sql.db.svc", None)
    assert unknown.steps[1].message == "service db/sql is another name of db.example.org"
    assert traced("db/sql", 5432, services=[service], resolved=("8.8.8.8",)).dialed == ("8.8.8.8", 5432)

"""What `alcove policy check` finds, by table: each problem, and none where there is none."""

from typing import Any

import pytest

from alcove.api.objects import Object
from alcove.network.policy_check import check
from alcove.network.trace import TenantObjects


def pod(
    name: str, labels: dict[str, str], address: str, namespace: str = "shop", port: str = "http"
) -> Object:
    ports = [{"name": port, "containerPort": 8080}]
    return {
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {"containers": [{"name": "c", "ports": ports}]},
        "status": {"phase": "Running", "podIP": address},
    }


PODS = [
    pod("web", {"app": "web"}, "10.0.0.1"),
    pod("db", {"app": "db"}, "10.0.0.2"),
    pod("mon", {"app": "mon"}, "10.0.0.3", "ops"),
]
NAMESPACES = [
    {"metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name}}}
    for name in ("shop", "ops", "kube-system", "default")
]
WEB = {"podSelector": {"matchLabels": {"app": "web"}}}


def problems(*policies: Object, services: tuple[Object, ...] = ()) -> list[str]:
    named = [
        {"metadata": {"name": f"p{n}", "namespace": "shop"}, "spec": spec} for n, spec in enumerate(policies)
    ]
    return [each.problem for each in check(TenantObjects(PODS, services, (), named, NAMESPACES, ()))]


def of_db(**spec: Any) -> Object:
    return {"podSelector": {"matchLabels": {"app": "db"}}, "policyTypes": ["Ingress", "Egress"], **spec}


def dns() -> Object:
    system = {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}}
    return {"namespaceSelector": system, "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}}}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (of_db(ingress=[{"from": [WEB], "ports": [{"port": 5432}]}]), []),
        (of_db(egress=[{"to": [dns()], "ports": [{"port": 53, "protocol": "UDP"}]}]), []),
        (of_db(ingress=[{"from": [{"ipBlock": {"cidr": "192.0.2.0/24"}}]}]), []),
        (of_db(ingress=[{"ports": [{"port": "http"}]}]), []),
        ({"podSelector": {"matchLabels": {"app": "dbb"}}}, ["SelectsNothing"]),
        (
            {"podSelector": {}, "policyTypes": ["Ingress"], "egress": [{"to": [WEB]}]},
            ["DirectionIgnored"],
        ),
        (
            of_db(ingress=[{"from": [WEB, {"podSelector": {"matchLabels": {"app": "wbe"}}}]}]),
            ["PeerMatchesNothing"],
        ),
        (
            of_db(ingress=[{"from": [{"namespaceSelector": {"matchLabels": {"team": "x"}}}]}]),
            ["PeerMatchesNothing", "RuleUnreachable"],
        ),
        (of_db(ingress=[{}, {"from": [WEB]}]), ["RuleUnreachable"]),
        (of_db(ingress=[{"from": [WEB]}, {"from": [WEB], "ports": [{"port": 1}]}]), ["RuleUnreachable"]),
        (
            of_db(
                ingress=[
                    {"from": [WEB], "ports": [{"port": 1, "endPort": 10}]},
                    {"from": [WEB], "ports": [{"port": 5}]},
                    {"from": [WEB], "ports": [{"port": 5, "protocol": "UDP"}, {"port": 11}]},
                ]
            ),
            ["RuleUnreachable"],
        ),
        (of_db(ingress=[{"ports": [{"port": "sql"}]}]), ["PortUnknown"]),
    ],
)
def test_policies_without_effect_are_found(spec: Object, expected: list[str]) -> None:
    assert problems(spec) == expected


def service(**port: Any) -> Object:
    spec = {"selector": {"app": "db"}, "ports": [{"port": 80, **port}]}
    return {"metadata": {"name": "sql", "namespace": "shop"}, "spec": spec}


@pytest.mark.parametrize(
    ("ingress", "port", "expected"),
    [
        ([], {}, ["ServiceDenied"]),
        ([{"from": [WEB], "ports": [{"port": 9}]}], {"targetPort": 8080}, ["ServiceDenied"]),
        ([{"from": [WEB], "ports": [{"port": 8080}]}], {"targetPort": 8080}, []),
        ([{"from": [WEB], "ports": [{"port": 8080}]}], {"targetPort": "http"}, []),
        ([{"from": [WEB]}], {"targetPort": "http"}, []),
    ],
)
def test_services_that_nobody_can_reach_are_found(
    ingress: list[Object], port: Object, expected: list[str]
) -> None:
    policy = of_db(ingress=ingress)
    assert problems(policy, services=(service(**port),)) == expected
    assert problems(services=(service(**port),)) == [], "without a policy, everybody may"

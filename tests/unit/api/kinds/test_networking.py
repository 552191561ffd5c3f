"""Ingresses, their classes, network policies, addresses of services."""

import pytest

from alcove.api.kinds.networking import STRATEGIES
from alcove.api.objects import Object


def messages(resource: str, spec: Object, **meta: object) -> list[str]:
    obj = {"metadata": {"name": "x", **meta}, "spec": spec}
    strategy = STRATEGIES[resource]
    strategy.default(obj)
    return [str(error) for error in (*strategy.validate(obj), *strategy.validate_create(obj))]


SERVICE = {"service": {"name": "web", "port": {"number": 80}}}
BACKEND_PATH = "spec.rules[0].http.paths[0].backend"


def rule(**path: object) -> Object:
    given = {"path": "/", "pathType": "Prefix", "backend": SERVICE, **path}
    return {"rules": [{"host": "a.example.com", "http": {"paths": [given]}}]}


INGRESSES: list[tuple[Object, list[str]]] = [
    (rule(), []),
    ({"defaultBackend": SERVICE}, []),
    ({"defaultBackend": {"resource": {"kind": "Bucket", "name": "b", "apiGroup": "x.io"}}}, []),
    ({}, ["spec: Invalid value: null: either `defaultBackend` or `rules` must be specified"]),
    (rule(pathType=None), ["spec.rules[0].http.paths[0].pathType: Required value: pathType must be specified"]),
    (rule(pathType="Glob"), [
        'spec.rules[0].http.paths[0].pathType: Unsupported value: "Glob": supported values: "Exact", "ImplementationSpecific", "Prefix"']),
    (rule(path="a"), ['spec.rules[0].http.paths[0].path: Invalid value: "a": must be an absolute path']),
    (rule(path="", pathType="ImplementationSpecific"), []),
    (rule(path=""), ['spec.rules[0].http.paths[0].path: Invalid value: "": must be an absolute path']),
    (rule(path="/a//b/.."), [
        "spec.rules[0].http.paths[0].path: Invalid value: \"/a//b/..\": must not contain '//'",
        "spec.rules[0].http.paths[0].path: Invalid value: \"/a//b/..\": cannot end with '/..'"]),
    (rule(path="/a//b", pathType="ImplementationSpecific"), []),
    (rule(backend={}), [f'{BACKEND_PATH}: Invalid value: "": resource or service backend is required']),
    (rule(backend={**SERVICE, "resource": {}}), [
        f'{BACKEND_PATH}: Invalid value: "": cannot set both resource and service backends']),
    (rule(backend={"resource": {}}), [
        f"{BACKEND_PATH}.resource.kind: Required value",
        f"{BACKEND_PATH}.resource.name: Required value"]),
    (rule(backend={"service": {"name": "web", "port": {}}}), [
        f"{BACKEND_PATH}: Required value: port name or number is required"]),
    (rule(backend={"service": {"name": "web", "port": {"name": "a", "number": 1}}}), [
        f'{BACKEND_PATH}: Invalid value: "": cannot set both port name & port number']),
    (rule(backend={"service": {"port": {"number": 65536}}}), [
        f"{BACKEND_PATH}.service.name: Required value",
        f"{BACKEND_PATH}.service.port.number: Invalid value: 65536: must be between 1 and 65535, inclusive"]),
    ({"rules": [{"host": "10.0.0.1"}]}, [
        'spec.rules[0].host: Invalid value: "10.0.0.1": must be a DNS name, not an IP address']),
    ({"rules": [{"host": "*.example.com"}]}, []),
    ({"rules": [{"http": {}}]}, ["spec.rules[0].http.paths: Required value"]),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "expected"), INGRESSES)
def test_ingress(spec: Object, expected: list[str]) -> None:
    assert messages("ingresses", spec) == expected


def test_ingress_names() -> None:
    spec = {
        "defaultBackend": SERVICE,
        "ingressClassName": "Bad",
        "tls": [{"hosts": ["a*", "ok.io"], "secretName": "S"}],
    }
    assert [error.split(": ")[0] for error in messages("ingresses", spec)] == [
        "spec.tls[0].hosts[0]",
        "spec.tls[0].secretName",
        "spec.ingressClassName",
    ]


def test_ingress_class_is_given_once() -> None:
    spec = {"defaultBackend": SERVICE, "ingressClassName": "a"}
    assert messages("ingresses", spec, annotations={"kubernetes.io/ingress.class": "b"}) == [
        'annotations.kubernetes.io/ingress.class: Invalid value: "b": must match `ingressClassName` when both are specified'
    ]
    assert not messages("ingresses", spec, annotations={"kubernetes.io/ingress.class": "a"})


def test_ingress_status() -> None:
    entries = [
        {"ip": "10.0.0.256"},
        {"hostname": "10.0.0.1"},
        {"ip": "2001:db8::1", "hostname": "lb.example.com"},
    ]
    errors = STRATEGIES["ingresses"].validate_status({"status": {"loadBalancer": {"ingress": entries}}}, {})
    assert [str(error) for error in errors] == [
        'status.loadBalancer.ingress[0].ip: Invalid value: "10.0.0.256": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)',
        'status.loadBalancer.ingress[1].hostname: Invalid value: "10.0.0.1": must be a DNS name, not an IP address',
    ]


CLASSES: list[tuple[Object, list[str]]] = [
    ({"controller": "example.com/ctl"}, []),
    ({"controller": "example.com/ctl", "parameters": {"kind": "P", "name": "p"}}, []),
    ({}, ["spec.controller: Required value"]),
    ({"controller": "ctl"}, [
        'spec.controller: Invalid value: "ctl": must be a domain-prefixed path (such as "acme.io/foo")']),
    ({"controller": "a.io/" + "x" * 250}, ["spec.controller: Too long: may not be more than 250 bytes"]),
    ({"controller": "a.io/x", "parameters": {"kind": "P", "name": "p", "scope": "Namespace"}}, [
        "spec.parameters.namespace: Required value: `parameters.scope` is set to 'Namespace'"]),
    ({"controller": "a.io/x", "parameters": {"kind": "P", "name": "p", "namespace": "n"}}, [
        "spec.parameters.namespace: Forbidden: `parameters.scope` is set to 'Cluster'"]),
    ({"controller": "a.io/x", "parameters": {"kind": "P", "name": "p", "scope": "World"}}, [
        'spec.parameters.scope: Unsupported value: "World": supported values: "Cluster", "Namespace"']),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "expected"), CLASSES)
def test_ingress_class(spec: Object, expected: list[str]) -> None:
    assert messages("ingressclasses", spec) == expected


def test_ingress_class_controller_stays() -> None:
    new, old = {"spec": {"controller": "b.io/x"}}, {"spec": {"controller": "a.io/x"}}
    [error] = STRATEGIES["ingressclasses"].validate_update(new, old)
    assert str(error) == 'spec.controller: Invalid value: "b.io/x": field is immutable'


def block(cidr: str, *excepted: str) -> Object:
    return {"egress": [{"to": [{"ipBlock": {"cidr": cidr, "except": list(excepted)}}]}]}


def port(**fields: object) -> Object:
    return {"ingress": [{"ports": [fields]}]}


PEER, PORT, EXCEPT = "spec.egress[0].to[0]", "spec.ingress[0].ports[0]", "spec.egress[0].to[0].ipBlock.except"
POLICIES: list[tuple[Object, list[str]]] = [
    ({"podSelector": {}}, []),
    (block("10.0.0.0/8", "10.1.0.0/16", "10.2.3.4/32"), []),
    (block("2001:db8::/32", "2001:db8:1::/48"), []),
    (block("10.0.0.0/8", "10.0.0.0/8"), [
        f'{EXCEPT}[0]: Invalid value: "10.0.0.0/8": must be a strict subset of `cidr`']),
    (block("10.0.0.0/8", "11.0.0.0/16", "2001:db8::/64"), [
        f'{EXCEPT}[0]: Invalid value: "11.0.0.0/16": must be a strict subset of `cidr`',
        f'{EXCEPT}[1]: Invalid value: "2001:db8::/64": must be a strict subset of `cidr`']),
    (block("10.0.0.0/8", "nonsense"), [
        f'{EXCEPT}[0]: Invalid value: "nonsense": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)']),
    (block("10.0.0.0"), [
        f'{PEER}.ipBlock.cidr: Invalid value: "10.0.0.0": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)']),
    (block(""), [f"{PEER}.ipBlock.cidr: Required value"]),
    ({"egress": [{"to": [{}]}]}, [f"{PEER}: Required value: must specify a peer"]),
    ({"egress": [{"to": [{"podSelector": {}, "ipBlock": {"cidr": "10.0.0.0/8"}}]}]}, [
        f"{PEER}: Forbidden: may not specify both ipBlock and another peer"]),
    ({"egress": [{"to": [{"podSelector": {}, "namespaceSelector": {}}]}]}, []),
    (port(port=80, endPort=90), []),
    (port(port="http"), []),
    (port(port=0), [f"{PORT}.port: Invalid value: 0: must be between 1 and 65535, inclusive"]),
    (port(port=80, endPort=79), [f"{PORT}.endPort: Invalid value: 80: must be greater than or equal to `port`"]),
    (port(endPort=79), [f"{PORT}.endPort: Invalid value: 79: may not be specified when `port` is not specified"]),
    (port(port="http", endPort=79), [
        f"{PORT}.endPort: Invalid value: 79: may not be specified when `port` is non-numeric"]),
    (port(protocol="ICMP"), [
        f'{PORT}.protocol: Unsupported value: "ICMP": supported values: "TCP", "UDP", "SCTP"']),
    ({"policyTypes": ["Sideways"]}, [
        'spec.policyTypes[0]: Unsupported value: "Sideways": supported values: "Ingress", "Egress"']),
    ({"policyTypes": ["Ingress", "Egress", "Ingress"]}, [
        'spec.policyTypes: Invalid value: ["Ingress","Egress","Ingress"]: may not specify more than two policyTypes']),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "expected"), POLICIES)
def test_network_policy(spec: Object, expected: list[str]) -> None:
    assert messages("networkpolicies", spec) == expected


def test_network_policy_defaults() -> None:
    policy: Object = {"spec": {"egress": [{"ports": [{"port": 53}]}]}}
    STRATEGIES["networkpolicies"].default(policy)
    assert policy["spec"] == {
        "egress": [{"ports": [{"port": 53, "protocol": "TCP"}]}],
        "policyTypes": ["Ingress", "Egress"],
    }
    bare: Object = {}
    STRATEGIES["networkpolicies"].default(bare)
    assert bare["spec"]["policyTypes"] == ["Ingress"]


PARENT = {"resource": "services", "namespace": "default", "name": "web"}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"parentRef": PARENT}, []),
        ({"parentRef": {"resource": "routers", "group": "example.com", "name": "edge"}}, []),
        ({}, ["spec.parentRef: Required value"]),
        (
            {"parentRef": {"namespace": "default"}},
            ["spec.parentRef.resource: Required value", "spec.parentRef.name: Required value"],
        ),
    ],
)
def test_ip_address(spec: Object, expected: list[str]) -> None:
    assert messages("ipaddresses", spec) == expected


@pytest.mark.parametrize(
    ("name", "is_valid"),
    [
        ("10.96.0.1", True),
        ("fd96::1", True),
        ("10.96.0.1.blue", True),
        ("fd96::1.blue", True),
        ("10.96.0.1.", False),
        ("10.96.0.1.-", False),
        ("10.96.0.01", False),
        ("web", False),
    ],
)
def test_the_name_of_an_ip_address_is_the_address(name: str, is_valid: bool) -> None:
    validate = STRATEGIES["ipaddresses"].validate_name
    assert validate is not None
    assert (not validate(name, False)) is is_valid


def test_an_ip_address_stays_with_its_parent() -> None:
    old, new = {"spec": {"parentRef": PARENT}}, {"spec": {"parentRef": {**PARENT, "name": "api"}}}
    update = STRATEGIES["ipaddresses"].validate_update
    assert not update(old, old)
    assert "field is immutable" in str(update(new, old)[0])


@pytest.mark.parametrize(
    ("cidrs", "expected"),
    [
        (["10.7.0.0/24"], ""),
        (["10.7.0.0/24", "fd07::/112"], ""),
        ([], "spec.cidrs: Required value: at least one CIDR required"),
        (["10.7.0.0/24", "10.8.0.0/24"], "may specify no more than one IP for each IP family"),
        (["10.7.0.1/24"], "spec.cidrs[0]: Invalid value"),
        (["10.7.0.0/24", "fd07::/112", "fd08::/112"], "may only hold up to 2 values"),
    ],
)
def test_service_cidr(cidrs: list[str], expected: str) -> None:
    found = messages("servicecidrs", {"cidrs": cidrs})
    assert (expected in found[0]) if expected else not found


def test_a_service_cidr_may_only_get_a_second_family() -> None:
    def errors(*cidrs: str) -> int:
        old, new = {"spec": {"cidrs": ["10.7.0.0/24"]}}, {"spec": {"cidrs": list(cidrs)}}
        return len(STRATEGIES["servicecidrs"].validate_update(new, old))

    assert not errors("10.7.0.0/24") and not errors("10.7.0.0/24", "fd07::/112")
    assert errors("10.8.0.0/24") and errors("fd07::/112", "10.7.0.0/24")

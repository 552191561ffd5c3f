"""Services: defaults, what follows from types, addresses that stay."""

import copy
from typing import Any

import pytest

from alcove.api.errors import BadRequest
from alcove.api.kinds.core import STRATEGIES
from alcove.api.kinds.core.services.validate import PORTS_MAX
from alcove.api.objects import Object

SERVICES = STRATEGIES["services"]


def messages(errors: Any) -> list[str]:
    return [str(error) for error in errors]


def service(**spec: Any) -> Object:
    made: Object = {"metadata": {"name": "s", "namespace": "n"}, "spec": {"ports": [{"port": 80}], **spec}}
    SERVICES.default(made)
    return made


def created(**spec: Any) -> Object:
    made = service(**spec)
    SERVICES.prepare_create(made)
    return made


def updated(old: Object, **changes: Any) -> Object:
    """The old service with fields replaced (None: left out), as the server prepares it."""
    new = copy.deepcopy(old)
    new["spec"].update(changes)
    new["spec"] = {field: value for field, value in new["spec"].items() if value is not None}
    SERVICES.default(new)
    SERVICES.prepare_update(new, old)
    return new


def update_faults(new: Object, old: Object) -> list[str]:
    return messages([*SERVICES.validate(new), *SERVICES.validate_update(new, old)])


def test_defaults() -> None:
    assert service()["spec"] == {
        "type": "ClusterIP",
        "sessionAffinity": "None",
        "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}],
        "internalTrafficPolicy": "Cluster",
    }
    assert service(type="NodePort")["spec"]["externalTrafficPolicy"] == "Cluster"
    assert service(externalIPs=["1.2.3.4"])["spec"]["externalTrafficPolicy"] == "Cluster"
    assert service(type="LoadBalancer")["spec"]["allocateLoadBalancerNodePorts"] is True
    assert service(sessionAffinity="ClientIP")["spec"]["sessionAffinityConfig"] == {
        "clientIP": {"timeoutSeconds": 10800}
    }
    assert (
        "sessionAffinityConfig"
        not in service(sessionAffinityConfig={"clientIP": {"timeoutSeconds": 5}})["spec"]
    )
    assert service(clusterIP="10.0.0.1")["spec"]["clusterIPs"] == ["10.0.0.1"]
    assert "internalTrafficPolicy" not in service(type="ExternalName", externalName="a.b", ports=[])["spec"]


@pytest.mark.parametrize(
    ("spec", "policy", "families"),
    [
        ({}, "SingleStack", None),
        ({"clusterIP": "2001:db8::1"}, "SingleStack", ["IPv6"]),
        ({"clusterIP": "None", "selector": {"a": "b"}}, "SingleStack", None),
        ({"clusterIP": "None"}, "RequireDualStack", ["IPv4", "IPv6"]),
        ({"ipFamilyPolicy": "PreferDualStack"}, "PreferDualStack", None),
        ({"clusterIPs": ["10.0.0.1", "2001:db8::1"], "clusterIP": "10.0.0.1", "ipFamilyPolicy": "RequireDualStack"},
         "RequireDualStack", ["IPv4", "IPv6"]),
    ],
)  # fmt: skip
def test_families_of_addresses(spec: Object, policy: str, families: list[str] | None) -> None:
    """As far as they follow from the spec alone; the others come from the network, with the address."""
    made = created(**spec)
    assert (made["spec"]["ipFamilyPolicy"], made["spec"].get("ipFamilies")) == (policy, families)
    assert made["status"] == {"loadBalancer": {}}
    assert messages(SERVICES.validate(made)) == []


def test_an_external_name_has_no_addresses() -> None:
    made = created(type="ExternalName", externalName="a.b.", ports=[])
    assert messages(SERVICES.validate(made)) == []
    assert "ipFamilies" not in made["spec"]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"ports": []}, ["spec.ports: Required value"]),
        ({"ports": [{"port": 0}]}, [
            "spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive",
            "spec.ports[0].targetPort: Invalid value: 0: must be between 1 and 65535, inclusive",
        ]),
        ({"ports": [{"port": 80}, {"port": 81}]}, [
            "spec.ports[0].name: Required value",
            "spec.ports[1].name: Required value",
        ]),
        ({"ports": [{"port": 80, "nodePort": 30000}]}, [
            "spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'"
        ]),
        ({"ports": [{"name": "a", "port": 80}, {"name": "a", "port": 80}]}, [
            'spec.ports[1].name: Duplicate value: "a"',
            'spec.ports[1]: Duplicate value: {"port":80,"protocol":"TCP"}',
        ]),
        ({"clusterIP": "x"}, [
            'spec.clusterIPs[0]: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)'
        ]),
        ({"type": "LoadBalancer", "clusterIP": "None"}, [
            "spec.clusterIPs[0]: Invalid value: \"None\": may not be set to 'None' for LoadBalancer services"
        ]),
        ({"externalTrafficPolicy": "Local"}, [
            'spec.externalTrafficPolicy: Invalid value: "Local": may only be set for externally-accessible services'
        ]),
        ({"loadBalancerSourceRanges": ["10.0.0.0/8"]}, [
            "spec.LoadBalancerSourceRanges: Forbidden: may only be used when `type` is 'LoadBalancer'"
        ]),
        ({"network": "Blue"}, [
            "spec.network: Invalid value: \"Blue\": a lowercase RFC 1123 subdomain must consist of lower case "
            "alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character "
            r"(e.g. 'example.com', regex used for validation is "
            r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
        ]),
    ],
)  # fmt: skip
def test_errors(spec: Object, expected: list[str]) -> None:
    assert messages(SERVICES.validate(service(**spec))) == expected


def test_a_service_has_no_more_ports_than_can_be_combined_with_its_endpoints() -> None:
    ports = [{"name": f"p{number}", "port": 1 + number, "protocol": "TCP"} for number in range(PORTS_MAX + 1)]
    assert messages(SERVICES.validate(created(ports=ports[:-1]))) == []
    [message] = messages(SERVICES.validate(created(ports=ports)))
    assert message == f"spec.ports: Too many: {PORTS_MAX + 1}: must have at most {PORTS_MAX} items"


def test_addresses_left_out_of_an_update_are_kept() -> None:
    old = created(type="NodePort", clusterIP="10.0.0.1", ports=[{"name": "a", "port": 80, "nodePort": 30001}])
    new = updated(old, clusterIP=None, clusterIPs=None, ipFamilies=None, ports=[{"name": "a", "port": 81}])
    assert new["spec"]["clusterIPs"] == ["10.0.0.1"]
    assert new["spec"]["clusterIP"] == "10.0.0.1"
    assert new["spec"]["ipFamilies"] == ["IPv4"]
    assert new["spec"]["ports"][0]["nodePort"] == 30001
    assert update_faults(new, old) == []
    new["spec"]["clusterIPs"].append("x")
    assert old["spec"]["clusterIPs"] == ["10.0.0.1"], "the stored object is not shared"


def test_a_cluster_ip_may_not_change() -> None:
    old = created(clusterIP="10.0.0.1")
    assert update_faults(updated(old, clusterIP="10.0.0.2"), old) == [
        'spec.clusterIPs[0]: Invalid value: ["10.0.0.2"]: may not change once set'
    ]
    assert update_faults(updated(old, clusterIP="10.0.0.2", clusterIPs=["10.0.0.2"]), old) == [
        'spec.clusterIPs[0]: Invalid value: ["10.0.0.2"]: may not change once set'
    ]


def test_a_service_may_give_up_its_address_by_becoming_a_name() -> None:
    old = created(type="NodePort", clusterIP="10.0.0.1", ports=[{"port": 80, "nodePort": 30001}])
    new = updated(old, type="ExternalName", externalName="a.b")
    assert update_faults(new, old) == []
    assert (
        not {"clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "externalTrafficPolicy"}
        & new["spec"].keys()
    )
    assert "nodePort" not in new["spec"]["ports"][0]


def test_what_the_new_type_has_no_use_for_is_dropped() -> None:
    old = created(
        type="LoadBalancer",
        clusterIP="10.0.0.1",
        externalTrafficPolicy="Local",
        healthCheckNodePort=31000,
        loadBalancerClass="a.b/c",
        ports=[{"port": 80, "nodePort": 30001}],
    )
    old["status"] = {"loadBalancer": {"ingress": [{"ip": "1.2.3.4", "ipMode": "VIP"}]}}
    new = updated(old, type="ClusterIP")
    assert update_faults(new, old) == []
    assert new["status"] == {"loadBalancer": {}}
    kept = new["spec"].keys()
    assert not {"healthCheckNodePort", "loadBalancerClass", "allocateLoadBalancerNodePorts"} & kept
    assert "externalTrafficPolicy" not in kept


def test_going_back_to_one_family_releases_the_second_address() -> None:
    both = ["10.0.0.1", "2001:db8::1"]
    old = created(clusterIP=both[0], clusterIPs=both, ipFamilyPolicy="RequireDualStack")
    new = updated(old, ipFamilyPolicy="SingleStack")
    assert (new["spec"]["clusterIPs"], new["spec"]["ipFamilies"]) == (["10.0.0.1"], ["IPv4"])
    assert update_faults(new, old) == []
    other = updated(old, clusterIPs=both[:1], ipFamilies=["IPv4"])
    assert update_faults(other, old) == [
        'spec.ipFamilyPolicy: Invalid value: "RequireDualStack": '
        "must be set to 'SingleStack' when releasing the secondary clusterIP",
        'spec.ipFamilyPolicy: Invalid value: "RequireDualStack": '
        "must be set to 'SingleStack' when releasing the secondary ipFamily",
    ]


def test_networks_of_services() -> None:
    label = "arktos.futurewei.com/network"
    made = service(network="blue")
    made["metadata"]["labels"] = {label: "red"}
    with pytest.raises(BadRequest):
        SERVICES.validate(made)
    old = created(network="blue", clusterIP="10.0.0.1")
    assert update_faults(updated(old, network="red"), old) == [
        'spec.network: Invalid value: "red": the network may not change after creation (it is "blue")'
    ]


@pytest.mark.parametrize(
    ("ingress", "expected"),
    [
        ([{"ip": "1.2.3.4", "ipMode": "VIP"}, {"hostname": "a.b"}], []),
        ([{"ip": "1.2.3.4"}], [
            "status.loadBalancer.ingress[0].ipMode: Required value: must be specified when `ip` is set"
        ]),
        ([{"ipMode": "VIP"}], [
            "status.loadBalancer.ingress[0].ipMode: Forbidden: may not be specified when `ip` is not set"
        ]),
        ([{"ip": "1.2.3.4", "ipMode": "x"}], [
            'status.loadBalancer.ingress[0].ipMode: Unsupported value: "x": supported values: "Proxy", "VIP"'
        ]),
        ([{"hostname": "1.2.3.4"}], [
            'status.loadBalancer.ingress[0].hostname: Invalid value: "1.2.3.4": must be a DNS name, not an IP address'
        ]),
    ],
)  # fmt: skip
def test_status(ingress: list[Object], expected: list[str]) -> None:
    old = created(type="LoadBalancer", clusterIP="10.0.0.1")
    new = {**old, "status": {"loadBalancer": {"ingress": ingress}}}
    assert messages(SERVICES.validate_status(new, old)) == expected


def test_only_balanced_services_have_ingress() -> None:
    old = created(clusterIP="10.0.0.1")
    new = {**old, "status": {"loadBalancer": {"ingress": [{"ip": "1.2.3.4", "ipMode": "VIP"}]}}}
    assert messages(SERVICES.validate_status(new, old)) == [
        "status.loadBalancer.ingress: Forbidden: may only be used when `spec.type` is 'LoadBalancer'"
    ]


def test_names_and_selectors() -> None:
    assert SERVICES.validate_name is not None
    assert not SERVICES.validate_name("1a", False)
    assert SERVICES.validate_name("a.b", False)
    made = created(clusterIP="10.0.0.1")
    assert {field: read(made) for field, read in SERVICES.fields.items()} == {
        "spec.clusterIP": "10.0.0.1",
        "spec.type": "ClusterIP",
    }

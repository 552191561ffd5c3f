from alcove.api import registry
from alcove.api.ids import TenantId
from alcove.network import wellknown
from alcove.network.owners import TenantNetworkId

BLUE = TenantNetworkId(TenantId("acme"), "blue")


def test_both_are_services_of_the_network_without_a_selector() -> None:
    kind = registry.load().find("", "v1", "services")
    assert kind is not None
    for service, place in (
        (wellknown.dns_service(BLUE), ("kube-system", "kube-dns-blue")),
        (wellknown.api_service(BLUE), ("default", "kubernetes-blue")),
    ):
        kind.strategy.default(service)
        kind.strategy.prepare_create(service)
        assert not kind.strategy.validate(service)
        assert (service["metadata"]["namespace"], service["metadata"]["name"]) == place
        assert service["spec"]["network"] == "blue" and "selector" not in service["spec"]
        assert wellknown.is_wellknown(service)
    assert [(p["protocol"], p["port"]) for p in wellknown.dns_service(BLUE)["spec"]["ports"]] == [
        ("UDP", 53),
        ("TCP", 53),
    ]


def test_others_are_not_taken_for_them() -> None:
    theirs = wellknown.dns_service(BLUE)
    theirs["metadata"]["namespace"] = "default"
    assert not wellknown.is_wellknown(theirs) and not wellknown.is_dns(theirs)
    assert wellknown.is_dns(wellknown.dns_service(BLUE)) and not wellknown.is_dns(wellknown.api_service(BLUE))


def test_a_network_whose_name_is_no_label_has_services_without_one() -> None:
    long = TenantNetworkId(TenantId("acme"), "a" * 64)
    assert "arktos.futurewei.com/network" not in wellknown.dns_service(long)["metadata"]["labels"]

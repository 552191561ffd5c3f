from ipaddress import ip_network

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
        (wellknown.api_service(BLUE, "kubernetes-blue"), ("default", "kubernetes-blue")),
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
    assert wellknown.is_dns(wellknown.dns_service(BLUE))
    assert not wellknown.is_dns(wellknown.api_service(BLUE, "kubernetes-blue"))


def test_default_kubernetes_of_a_stock_api_server_is_not_ours() -> None:
    owner = TenantNetworkId(TenantId("acme"), "default")
    labels = {"component": "apiserver", "provider": "kubernetes"}
    stock = {"metadata": {"name": "kubernetes", "namespace": "default", "labels": labels}, "spec": {}}
    assert wellknown.is_wellknown(stock) and not wellknown.is_ours(stock)
    assert all(wellknown.is_ours(each) for each in wellknown.services_of(owner, None))


def test_only_the_default_network_has_the_api_server_by_the_name_that_it_has_in_kubernetes() -> None:
    default = TenantNetworkId(TenantId("acme"), "default")

    def made(owner: TenantNetworkId, cidr: str) -> dict[str, str | None]:
        services = wellknown.services_of(owner, ip_network(cidr))
        assert all(wellknown.is_wellknown(each) for each in services)
        return {each["metadata"]["name"]: each["spec"].get("clusterIP") for each in services}

    assert made(default, "10.96.0.0/16") == {
        "kube-dns-default": "10.96.0.10",
        "kubernetes-default": None,
        "kubernetes": "10.96.0.1",
    }
    assert made(BLUE, "fd96::/108") == {"kube-dns-blue": "fd96::a", "kubernetes-blue": None}
    assert made(BLUE, "10.96.0.0/29") == {"kube-dns-blue": None, "kubernetes-blue": None}


def test_a_network_whose_name_is_no_label_has_services_without_one() -> None:
    long = TenantNetworkId(TenantId("acme"), "a" * 64)
    assert "arktos.futurewei.com/network" not in wellknown.dns_service(long)["metadata"]["labels"]

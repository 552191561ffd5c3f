"""What is made on a stock API server."""

from ipaddress import ip_network

import pytest

from alcove.cli.foreign import manifests


@pytest.mark.parametrize(
    ("services", "pods"),
    [
        (["10.96.0.0/12"], "10.128.0.0/16"),
        (["10.128.0.0/20"], "172.20.0.0/16"),
        (["10.0.0.0/8", "172.16.0.0/12"], "192.168.0.0/16"),
        (["fd00::/108"], "10.128.0.0/16"),
        (["0.0.0.0/0"], None),
    ],
)
def test_pods_and_services_have_different_ranges(services: list[str], pods: str | None) -> None:
    chosen = manifests.pod_range([ip_network(each) for each in services])
    assert chosen == (ip_network(pods) if pods else None)


def test_networks_have_the_planes_service_range_by_default() -> None:
    crd = manifests.network_crd([ip_network("10.96.0.0/12")])
    [version] = crd["spec"]["versions"]
    spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    assert spec["properties"]["service"]["default"] == {"ipam": "External", "cidrs": ["10.96.0.0/12"]}
    assert crd["metadata"]["name"] == "networks.arktos.futurewei.com"

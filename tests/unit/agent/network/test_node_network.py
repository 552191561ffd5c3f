"""A pod's NICs as veths, with the bandwidth and traffic class of its annotations."""

from ipaddress import ip_address, ip_interface

import pytest

from alcove.agent.network.node_network import class_of, rate_of, veths_of
from alcove.api.ids import TenantId
from alcove.dataplane.model import (
    TrafficClass,
)
from alcove.network.endpoints import PodNic
from alcove.network.owners import OwnerRef


def nic(interface: str, host: int) -> PodNic:
    pod = OwnerRef(TenantId("acme"), "default", "web")
    gateway = ip_address("10.0.0.1")
    return PodNic(
        pod, interface, "v", 7, ip_interface(f"10.0.0.{host}/24"), f"0a:58:0a:00:00:{host:02x}", gateway
    )


def test_the_first_interface_has_the_default_route() -> None:
    first, second = veths_of("al0", "place", {"metadata": {}}, [nic("eth1", 6), nic("eth0", 5)])
    assert (first.pod_interface, first.gateways) == ("eth0", (ip_address("10.0.0.1"),))
    assert (second.pod_interface, second.gateways) == ("eth1", ())
    assert first.name != second.name
    assert len(first.name) <= 15
    [other, _] = veths_of("al0", "other", {"metadata": {}}, [nic("eth1", 6), nic("eth0", 5)])
    assert other.name != first.name


@pytest.mark.parametrize(
    ("name", "text", "rate"),
    [
        ("mizar.com/egress-bandwidth", "80M", 10_000_000),
        ("kubernetes.io/egress-bandwidth", "1Gi", 2**30 // 8),
        ("mizar.com/egress-bandwidth", "fast", 0),
        ("mizar.com/egress-bandwidth", "-5M", 0),
        ("other", "80M", 0),
    ],
)
def test_rates_are_in_bits_per_second(name: str, text: str, rate: int) -> None:
    assert rate_of({"metadata": {"annotations": {name: text}}}) == rate


@pytest.mark.parametrize(
    ("text", "rank"),
    [
        ("Premium", TrafficClass.PREMIUM),
        ("Expedited", TrafficClass.EXPEDITED),
        ("BestEffort", TrafficClass.BEST_EFFORT),
        ("best-effort", TrafficClass.BEST_EFFORT),
        ("none", TrafficClass.EXPEDITED),
        ("", TrafficClass.EXPEDITED),
    ],
)
def test_classes_are_mizars(text: str, rank: TrafficClass) -> None:
    assert class_of({"metadata": {"annotations": {"mizar.com/network-class": text}}}) == rank

"""Whom a change of an endpoint concerns: networks on droplets, by number and name."""

import pytest

from alcove.api.objects import Object
from alcove.controllers.network import gateways


def endpoint(kind: str, vni: int | None, droplet: str = "", pod: str = "acme/default/web") -> Object:
    return {"metadata": {"name": "x"}, "spec": {"type": kind, "vni": vni, "droplet": droplet, "pod": pod}}


@pytest.mark.parametrize(
    ("obj", "location", "tenant"),
    [
        (endpoint("simple", 7, "a.example"), ["7.a.example"], ["acme"]),
        (endpoint("simple", 7), [], ["acme"]),
        (endpoint("simple", None, "a"), [], ["acme"]),
        (endpoint("scaled", 7), [], []),
        (endpoint("gateway", 7, "a", "gateway on a"), [], []),
    ],
)
def test_where_pods_are(obj: Object, location: list[str], tenant: list[str]) -> None:
    assert list(gateways._pod_location(obj)) == location
    assert list(gateways._tenant_of(obj)) == tenant


def test_an_owner_fits_into_a_label_and_is_one_droplets() -> None:
    long = "node-" + "x" * 240
    assert len(gateways.owner_of("16777215", long)) <= 63
    assert gateways.owner_of("7", "a") != gateways.owner_of("7", "b")
    assert gateways.owner_of("7", "a") != gateways.owner_of("8", "a")

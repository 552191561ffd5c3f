"""Which provider a network or a VPC belongs to."""

import pytest

from alcove.api.objects import Object
from alcove.network.providers.all import PROVIDERS
from alcove.network.providers.flat import FlatNetworks
from alcove.network.providers.vpc import VpcNetworks
from alcove.vpc.errors import AddressUnavailable


@pytest.mark.parametrize(
    ("kind", "provider"), [("flat", FlatNetworks), ("vpc", VpcNetworks), ("mizar", VpcNetworks)]
)
def test_a_networks_provider_follows_from_its_type(kind: str, provider: type) -> None:
    assert isinstance(PROVIDERS.of({"spec": {"type": kind}}), provider)


@pytest.mark.parametrize(
    ("name", "provider"), [("vpc0", FlatNetworks), ("vpc1", VpcNetworks), ("", VpcNetworks)]
)
def test_the_last_provider_has_every_vpc_that_is_no_others(name: str, provider: type) -> None:
    assert isinstance(PROVIDERS.of_vpc(name), provider)


@pytest.mark.parametrize("network", [{"spec": {"type": "bridge"}}, {}])
def test_a_network_of_a_type_without_a_provider_waits_for_one(network: Object) -> None:
    with pytest.raises(AddressUnavailable, match="no provider"):
        PROVIDERS.of(network)

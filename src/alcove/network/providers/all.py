"""The list of network providers."""

from alcove.network.providers.base import Providers
from alcove.network.providers.flat import FlatNetworks
from alcove.network.providers.vpc import VpcNetworks

PROVIDERS = Providers(
    FlatNetworks(),
    VpcNetworks(),
)

from alcove.api.kinds.core.networks import NETWORK_TYPES
from alcove.network.providers.all import PROVIDERS


def test_every_type_that_the_api_accepts_has_exactly_one_provider() -> None:
    assert sorted(kind for provider in PROVIDERS for kind in provider.types) == sorted(NETWORK_TYPES)

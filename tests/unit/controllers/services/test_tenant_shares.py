"""What the services of a tenant hold of a shared pool is found by index, and more than its share is refused."""

import pytest

from alcove.api.pool_shares import PoolUse
from alcove.controllers.services.tenant_shares import (
    BALANCERS,
    ShareExceeded,
    check_limit,
    check_share,
    pool_and_tenant,
)


def test_more_than_the_share_or_the_limit_is_refused() -> None:
    check_share(PoolUse(BALANCERS, 4, 6), 1)
    check_limit(BALANCERS, 2, 8, 10)
    with pytest.raises(ShareExceeded, match="exceeded quota: tenant share"):
        check_share(PoolUse(BALANCERS, 5, 5), 1)
    with pytest.raises(ShareExceeded, match="exceeded quota: tenant share"):
        check_limit(BALANCERS, 3, 8, 10)


def test_what_is_held_is_found_by_pool_and_tenant() -> None:
    port = {"metadata": {"name": "port-30080-tcp"}, "spec": {"type": "door", "pod": "red/default/web"}}
    address = {
        "metadata": {"name": "7-192.0.2.7"},
        "spec": {"type": "door", "net": "out", "pod": "red/d/web"},
    }
    assert list(pool_and_tenant(port)) == ["TCP", "TCP/red"]
    assert list(pool_and_tenant(address)) == ["out", "out/red"]
    assert (
        list(pool_and_tenant({"metadata": {"name": "x"}, "spec": {"type": "simple", "pod": "red/d/w"}})) == []
    )

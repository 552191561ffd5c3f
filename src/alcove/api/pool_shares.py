"""Shares of what all tenants take from the same pools: node ports and external addresses. Pure: no I/O.

What a service has is never taken from it, so a share cannot be computed from what others want later. Instead a
tenant may hold as many as are still free: the first gets half of a pool at most, the next half of the rest, and
one that holds none gets one as long as there is any.
"""

from msgspec import Struct


class PoolUse(Struct, frozen=True):
    """A tenant's use of a pool."""

    resource: str
    """The name of the resource, as in a ResourceQuota."""
    used: int
    free: int
    """What nobody holds."""


def share_exceeded(use: PoolUse, requested: int) -> str:
    """A message if the tenant would hold more than what then is free, unless it is its first; else empty."""
    most = max((use.used + use.free) // 2, 1)
    return limit_exceeded(use.resource, requested, use.used, most)


def limit_exceeded(resource: str, requested: int, used: int, limit: int) -> str:
    """A message if the tenant would hold more than the limit; else empty."""
    if not requested or used + requested <= limit:
        return ""
    return (
        f"exceeded quota: tenant share, requested: {resource}={requested}, used: {resource}={used}, "
        f"limited: {resource}={limit}"
    )

"""The bytes that this server buffers for each tenant: one account for requests, responses, watches and history.

A tenant that reaches its bound loses what is its own: first its history (a watch that resumes gets `Expired`),
then its slowest watches (`Expired`), then connections with the largest requests that are not answered yet, then its
next request (429). If all tenants together reach the total, the
tenant with most loses; ring0 and a tenant within an equal share of the total are served even then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from msgspec import Struct

from alcove.api.errors import TooManyRequests
from alcove.api.ids import SYSTEM, TenantId
from alcove.http.group_counts import GroupCounts

RETRY_AFTER_SECONDS = 1

_EVERYBODY = ""
"""The account of all tenants together."""

Shed = Callable[[TenantId, int], None]
"""Drops about so many bytes that are buffered for the tenant, if it has them."""


class BufferLimits(Struct, frozen=True, kw_only=True):
    tenant_bytes_max: int = 128 << 20
    """Bytes buffered per tenant. Beyond it the tenant's history and slow watches end with `Expired`, and
    requests that need a buffer are answered with 429."""
    total_bytes_max: int = 1 << 30
    """Bytes buffered for all tenants. Beyond it the tenant with most loses what it would at its own bound."""


class TenantBuffers:
    """The accounts of all tenants. Ring0's is bounded by the total only."""

    def __init__(self, limits: BufferLimits | None = None, counts: GroupCounts | None = None) -> None:
        """`counts`: the bytes of each tenant."""
        self.limits = limits or BufferLimits()
        self._bytes = GroupCounts() if counts is None else counts
        self._shedders: list[Shed] = []
        self._is_shedding = False

    def add_shedder(self, shed: Shed) -> None:
        """Shedders are called in the order in which they are added."""
        self._shedders.append(shed)

    @property
    def total(self) -> int:
        return self._bytes.total(_EVERYBODY)

    def of(self, tenant: TenantId) -> int:
        """The bytes that this process buffers for the tenant."""
        return self._bytes.own(tenant)

    def reserve(self, tenant: TenantId, count: int) -> None:
        """Counts bytes that a request needs; `release` them later. Raises TooManyRequests."""
        if not self._fits(tenant, count):
            self._shed(tenant, count)
            if not self._fits(tenant, count):
                raise _rejection(tenant)
        self._change(tenant, count)

    @contextmanager
    def reserving(self, tenant: TenantId) -> Iterator[Callable[[int], None]]:
        """Yields a function that reserves further bytes, all of which are released at the end."""
        reserved = 0

        def reserve(count: int) -> None:
            nonlocal reserved
            self.reserve(tenant, count)
            reserved += count

        try:
            yield reserve
        finally:
            self.release(tenant, reserved)

    def has_room(self, tenant: TenantId) -> bool:
        """Whether `check` would raise nothing, without shedding."""
        return not self._bytes.total(_EVERYBODY) or self._fits(tenant, 0)

    def check(self, tenant: TenantId) -> None:
        """Raises TooManyRequests if the tenant's account is full, before a request is handled whose response
        may be large."""
        if self._bytes.total(_EVERYBODY) and not self._fits(tenant, 0):
            self._shed(tenant, 0)
            if not self._fits(tenant, 0):
                raise _rejection(tenant)

    def hold(self, tenant: TenantId, count: int) -> None:
        """Counts bytes that are buffered already, and sheds if they are too many."""
        self._change(tenant, count)
        if not self._fits(tenant, 0):
            self._shed(tenant, 0)

    def release(self, tenant: TenantId, count: int) -> None:
        self._change(tenant, -count)

    def adjust(self, tenant: TenantId, count: int) -> None:
        """Counts bytes of requests that the tenant's connections hold; fewer if `count` is negative."""
        if count > 0:
            self.hold(tenant, count)
        else:
            self.release(tenant, -count)

    def _change(self, tenant: TenantId, count: int) -> None:
        self._bytes.add(_EVERYBODY, count)
        self._bytes.add(tenant, count)

    def _tenant_max(self, tenant: TenantId) -> int:
        return self.limits.total_bytes_max if tenant == SYSTEM else self.limits.tenant_bytes_max

    def _fits(self, tenant: TenantId, count: int) -> bool:
        wanted = self._bytes.total(tenant) + count
        if wanted > self._tenant_max(tenant):
            return False
        if self.total + count <= self.limits.total_bytes_max or tenant == SYSTEM:
            return True
        return wanted <= self.limits.total_bytes_max // max(len(self._bytes) - 1, 1)

    def _shed(self, tenant: TenantId, count: int) -> None:
        """Makes room for `count` bytes of the tenant."""
        if self._is_shedding:
            return  # What is shed changes the accounts; that needs no further shedding.
        self._is_shedding = True
        try:
            self._shed_from(tenant, self._bytes.total(tenant) + count - self._tenant_max(tenant))
            excess = self.total + count - self.limits.total_bytes_max
            if excess > 0:
                tenants = (
                    TenantId(each) for each in self._bytes.groups() if each not in (SYSTEM, _EVERYBODY)
                )
                self._shed_from(max(tenants, key=self.of, default=SYSTEM), excess)
        finally:
            self._is_shedding = False

    def _shed_from(self, tenant: TenantId, excess: int) -> None:
        target = self.of(tenant) - excess
        for shed in self._shedders:
            if (left := self.of(tenant) - target) <= 0:
                return
            shed(tenant, left)


def _rejection(tenant: TenantId) -> TooManyRequests:
    message = f'this server buffers too many bytes for tenant "{tenant}", please try again later'
    return TooManyRequests.after(RETRY_AFTER_SECONDS, message)

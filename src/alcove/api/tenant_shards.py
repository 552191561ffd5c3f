"""Shards of tenants: every tenant is in exactly one of `count` shards, by a hash of its name.

The hash is part of the API (`tenantShard=INDEX/COUNT` on lists and watches of all tenants) and must never change: two
processes of different versions would otherwise both work for a tenant, or neither. Ring0 is in shard 0. A selection may
contain ring0's objects in addition to those of its shard: `INDEX/COUNT,system`.
"""

from __future__ import annotations

import re
from hashlib import blake2b

from msgspec import Struct

from alcove.api.ids import SYSTEM, TenantId

SHARDS_MAX = 64
"""Shards that tenants can be divided into; a list or watch that names more is rejected."""

_FORM = re.compile(r"(\d{1,3})/(\d{1,3})(,system)?", re.ASCII)


def shard_of(tenant: TenantId, count: int) -> int:
    """The shard of a tenant, from 0 to `count` - 1."""
    if count == 1 or tenant == SYSTEM:
        return 0
    return int.from_bytes(blake2b(tenant.encode(), digest_size=8).digest(), "big") % count


class TenantShard(Struct, frozen=True):
    index: int
    count: int
    with_system: bool = False
    """Whether ring0's objects are selected too, if this is not the shard that ring0 is in."""

    def __contains__(self, tenant: TenantId) -> bool:
        if tenant == SYSTEM:
            return self.has_system
        return shard_of(tenant, self.count) == self.index

    @property
    def has_system(self) -> bool:
        return self.index == 0 or self.with_system

    def __str__(self) -> str:
        return f"{self.index}/{self.count}" + (",system" if self.with_system else "")


def parse(text: str) -> TenantShard:
    """Raises ValueError."""
    form = _FORM.fullmatch(text)
    index, count = (int(form[1]), int(form[2])) if form else (0, 0)
    if form is None or not 0 < count <= SHARDS_MAX or index >= count:
        raise ValueError(
            f"tenantShard must be INDEX/COUNT or INDEX/COUNT,system with INDEX < COUNT <= {SHARDS_MAX}"
        )
    return TenantShard(index, count, form[3] is not None)

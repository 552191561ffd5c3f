"""Counts what is read from mirrors: work that grows with other objects shows in it, on a machine of any speed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from alcove.api.ids import TenantId
from alcove.client.mirror_entries import Name
from alcove.client.plane_mirror import PlaneMirror


class ReadCount:
    def __init__(self) -> None:
        self.count = 0
        """Objects that were read, and names and tenants that were listed."""


@contextmanager
def count_reads() -> Iterator[ReadCount]:
    """Counts the reads of all mirrors."""
    reads = ReadCount()
    get, names, found, tenants = PlaneMirror.get, PlaneMirror.names, PlaneMirror.found, PlaneMirror.tenants

    def counted_get(self: PlaneMirror, tenant: TenantId, name: Name) -> bytes | None:
        reads.count += 1
        return get(self, tenant, name)

    def counted_names(self: PlaneMirror, tenant: TenantId, namespace: str | None) -> list[Name]:
        result = names(self, tenant, namespace)
        reads.count += len(result)
        return result

    def counted_found(self: PlaneMirror, position: int, tenant: TenantId, value: str) -> list[Name]:
        result = found(self, position, tenant, value)
        reads.count += len(result)
        return result

    def counted_tenants(self: PlaneMirror) -> list[TenantId]:
        result = tenants(self)
        reads.count += len(result)
        return result

    with patch.multiple(
        PlaneMirror, get=counted_get, names=counted_names, found=counted_found, tenants=counted_tenants
    ):
        yield reads

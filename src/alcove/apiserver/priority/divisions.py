"""The division of each tenant's seats between its priority levels, for tenants that have stored any configuration.

The built-in flow schemas and priority levels are shared by all tenants; stored ones replace them by name. A division is
compiled with the tenant's first request after a change, so the tenant that changes it pays for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice

from alcove.api.ids import GroupResource, TenantId
from alcove.api.objects import Object, name
from alcove.api.resources import FLOW_SCHEMAS, PRIORITY_LEVELS
from alcove.apiserver import builtin
from alcove.apiserver.cache.entries import CacheEvent, CacheEventType
from alcove.apiserver.call import ApiCall
from alcove.apiserver.flow import FlowLimits
from alcove.apiserver.priority.flowschemas import FlowSchemas
from alcove.apiserver.priority.levels import LevelSeats, WaitingLimits, config_of
from alcove.apiserver.priority.request_flow import RequestFlow
from alcove.apiserver.reader import CacheReader

FLOW_SCHEMAS_MAX = 128
PRIORITY_LEVELS_MAX = 64
STORED_LIMITS = {FLOW_SCHEMAS: FLOW_SCHEMAS_MAX, PRIORITY_LEVELS: PRIORITY_LEVELS_MAX}
"""Stored objects that a tenant may have beside those that replace built-in ones: every request that is classified may
look at all of them."""


class Division:
    """One tenant's flow schemas and priority levels."""

    def __init__(self, seats: LevelSeats) -> None:
        self.seats = seats
        self.is_stale = True
        self.is_ending = False
        """Nothing is stored any more: the division ends with its last request."""
        self._schemas: FlowSchemas

    def compile(self, schemas: Iterable[Object], levels: Iterable[Object]) -> None:
        configs = [config_of(level) for level in levels]
        known = {config.name for config in configs}
        # A schema whose level does not exist is not considered, as in Kubernetes.
        usable = [each for each in schemas if each["spec"]["priorityLevelConfiguration"]["name"] in known]
        self._schemas = FlowSchemas(usable)
        self.seats.configure(configs)
        self.is_stale = False

    def classify(self, call: ApiCall) -> RequestFlow:
        schema = self._schemas.match(call.identity, call.verb, call.target)
        return RequestFlow(schema, self.seats.get(schema.level), self.seats)


class Divisions:
    def __init__(self, reader: CacheReader, limits: FlowLimits) -> None:
        self._reader = reader
        self._seats_per_tenant = limits.seats_per_tenant
        self._waiting = WaitingLimits(limits.queue_per_tenant_max, limits.queued_max)
        self._divisions: dict[TenantId, Division] = {}

    def load(self) -> None:
        """Call it once the cache is filled."""
        for resource in STORED_LIMITS:
            for tenant in self._reader.tenants(resource):
                self._divide(tenant)

    def notice(self, events: Sequence[CacheEvent]) -> None:
        for event in events:
            key = event.entry.key
            if key.resource not in STORED_LIMITS:
                continue
            self._divide(key.tenant)
            if event.kind is CacheEventType.DELETED and not self._has_stored(key.tenant):
                # The tenant itself may be going, and send no further request.
                self.of(key.tenant)

    def _has_stored(self, tenant: TenantId) -> bool:
        return any(True for resource in STORED_LIMITS for _ in self._reader.list(tenant, resource))

    def _divide(self, tenant: TenantId) -> None:
        division = self._divisions.get(tenant)
        if division is None:
            seats = LevelSeats(self._seats_per_tenant, self._waiting)
            division = self._divisions[tenant] = Division(seats)
        division.is_stale = True

    def of(self, tenant: TenantId) -> Division | None:
        """The tenant's division; None if the tenant has stored no configuration."""
        division = self._divisions.get(tenant)
        if division is None:
            return None
        if division.is_stale:
            self._compile(tenant, division)
        if division.is_ending and division.seats.is_idle:
            del self._divisions[tenant]
            return None
        return division

    def _compile(self, tenant: TenantId, division: Division) -> None:
        schemas, levels = self._stored(tenant, FLOW_SCHEMAS), self._stored(tenant, PRIORITY_LEVELS)
        division.is_ending = not schemas and not levels
        division.compile(
            _with_built_in(tenant, FLOW_SCHEMAS, schemas), _with_built_in(tenant, PRIORITY_LEVELS, levels)
        )

    def _stored(self, tenant: TenantId, resource: GroupResource) -> list[Object]:
        limit = STORED_LIMITS[resource] + len(builtin.built_in(tenant, resource))
        return list(islice(self._reader.list(tenant, resource), limit))

    def nominal_seats(self, tenant: TenantId) -> dict[str, int]:
        """The nominal seats of each of the tenant's priority levels."""
        division = self.of(tenant)
        if division is not None:
            return division.seats.nominal()
        seats = LevelSeats(self._seats_per_tenant, self._waiting)
        seats.configure(map(config_of, _with_built_in(tenant, PRIORITY_LEVELS, ())))
        return seats.nominal()


def _with_built_in(tenant: TenantId, resource: GroupResource, stored: Iterable[Object]) -> list[Object]:
    by_name: dict[str, Object] = {name(obj): obj for obj in stored}
    for each in builtin.built_in(tenant, resource):
        if each not in by_name:
            shown = builtin.get(tenant, resource, each, "")
            assert shown is not None
            by_name[each] = shown
    return list(by_name.values())

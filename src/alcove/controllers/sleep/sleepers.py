"""The tenants that are asleep, for controllers that behave differently then."""

from __future__ import annotations

from collections.abc import Iterable

from alcove.api.ids import SYSTEM, TenantId
from alcove.api.kinds.core.sleep import is_asleep
from alcove.client.changes import ChangeType, ObjectChange
from alcove.client.keys import HOME, ObjectKey
from alcove.client.mirror import Mirror
from alcove.client.resources import TENANTS
from alcove.controllers.controller import Controller


class Sleepers:
    def __init__(self, controller: Controller, mirror: Mirror) -> None:
        """When a tenant falls asleep or wakes, `controller` reconciles all objects that it has in `mirror`."""
        self._mirror = mirror
        self._asleep: set[TenantId] = set()
        controller.on(controller.mirror(TENANTS, tenant=SYSTEM, only=HOME), self._on_change)

    def __contains__(self, tenant: TenantId) -> bool:
        return tenant in self._asleep

    def _on_change(self, change: ObjectChange) -> Iterable[ObjectKey]:
        tenant = TenantId(change.key.name)
        asleep = change.kind is not ChangeType.DELETED and is_asleep(change.obj)
        if asleep == (tenant in self._asleep):
            return
        (self._asleep.add if asleep else self._asleep.discard)(tenant)
        for space in self._mirror.spaces():
            if space.tenant == tenant:
                yield from self._mirror.keys(space.plane, tenant)

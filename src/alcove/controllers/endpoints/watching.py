"""What both endpoint controllers read, and whom a change of a pod concerns."""

from __future__ import annotations

from collections.abc import Iterable

from alcove.api.objects import Object, labels
from alcove.client.changes import Change
from alcove.client.keys import ObjectKey
from alcove.client.resources import PODS, SERVICES
from alcove.controllers.controller import Controller, Setup
from alcove.controllers.endpoints.backends import Backend, backends
from alcove.controllers.workloads.selecting import Selectors, plain_selector


class ServiceWatcher(Controller):
    resource = SERVICES

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self._services = self.mirror(SERVICES)
        self._pods = self.mirror(PODS)
        self._selectors = Selectors(self._services, plain_selector)
        self.on(self._services)
        self.on(self._pods, self._services_of)

    def _services_of(self, change: Change) -> Iterable[ObjectKey]:
        """Services that select the pod, or did before its labels changed."""
        yield from self._selectors.matching(change.key, change.obj)
        old = change.old
        if old is not None and labels(old) != labels(change.obj):
            yield from self._selectors.matching(change.key, old)

    def backends(self, key: ObjectKey, service: Object) -> list[Backend]:
        candidates = self._pods.list(key.plane, key.tenant, key.namespace)
        return backends(service, self._selectors.get(key), candidates)

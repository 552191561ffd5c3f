"""What both endpoint controllers read, whom a change of a pod concerns, and how much of the process' time a service
may take."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable

from alcove.api.objects import Object, labels
from alcove.client.changes import ObjectChange
from alcove.client.keys import ObjectKey
from alcove.client.resources import PODS, SERVICES
from alcove.controllers.controller import DONE, Controller, ControllerContext, Result
from alcove.controllers.endpoints.backends import EndpointBackend, backends
from alcove.controllers.endpoints.pacing import ServicePacing
from alcove.controllers.workloads.selector_index import SelectorIndex, plain_selector

PODS_AT_ONCE = 100
"""So many are read before others may do something: a service of thousands stops nobody for long."""


class ServiceWatcher(Controller):
    resource = SERVICES

    def __init__(self, context: ControllerContext, seconds: Callable[[], float] = time.perf_counter) -> None:
        """`seconds` measures what a service takes."""
        super().__init__(context)
        self._services = self.mirror(SERVICES)
        self._pods = self.mirror(PODS)
        self._selectors = SelectorIndex(self._services, plain_selector)
        self._pace = ServicePacing()
        self._seconds = seconds
        self.on(self._services)
        self.on(self._pods, self._services_of)

    def _services_of(self, change: ObjectChange) -> Iterable[ObjectKey]:
        """Services that select the pod, or did before its labels changed."""
        yield from self._selectors.matching(change.key, change.obj)
        old = change.old
        if old is not None and labels(old) != labels(change.obj):
            yield from self._selectors.matching(change.key, old)

    async def reconcile(self, key: ObjectKey) -> Result:
        service = self._services.get(key)
        if service is None:
            self._pace.forget(key)
            await self.without(key)
            return DONE
        now = asyncio.get_running_loop().time()
        if wait := self._pace.wait_seconds(key, now):
            return Result(after_seconds=wait)
        await self.settle(key, service)
        return DONE

    async def without(self, key: ObjectKey) -> None:
        """There is no such service any more."""
        raise NotImplementedError

    async def settle(self, key: ObjectKey, service: Object) -> None:
        """Brings what is told of the service to what it is."""
        raise NotImplementedError

    async def backends(self, key: ObjectKey, service: Object) -> list[EndpointBackend]:
        """The service's pods, which others may change while they are read: then it is looked at again."""
        selector, spent = self._selectors.get(key), 0.0
        found: list[EndpointBackend] = []
        names = self._pods.keys(key.plane, key.tenant, key.namespace)
        for start in range(0, len(names), PODS_AT_ONCE):
            began = self._seconds()
            some = [
                pod
                for each in names[start : start + PODS_AT_ONCE]
                if (pod := self._pods.get(each)) is not None
            ]
            found += backends(service, selector, some)
            spent += self._seconds() - began
            await asyncio.sleep(0)
        self._pace.took(key, spent, asyncio.get_running_loop().time())
        return sorted(found, key=lambda each: str(each.pod["metadata"]["name"]))

"""Base class of the two endpoint controllers: the mirrors they read, the services that a change of a pod
enqueues, and the rate limit per service.

Each change of a pod recomputes the endpoints of its services from all pods that they select. With thousands of pods
that change one after another this would use all of the process's time, at the expense of every tenant. A
service whose computation took long therefore rests until it uses at most `SHARE` of the time; changes in
between are handled together afterwards.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable

from alcove.api.objects import Object
from alcove.client.changes import ChangeType, ObjectChange
from alcove.client.keys import ObjectKey
from alcove.client.resources import PODS, SERVICES
from alcove.controllers.controller import DONE, Controller, ControllerContext, Result
from alcove.controllers.endpoints.backends import EndpointBackend, backends, is_managed
from alcove.controllers.endpoints.service_members import PODS_AT_ONCE, ServiceMembers
from alcove.controllers.workloads.selector_index import SelectorIndex, plain_selector

SHARE = 0.05
FREE_SECONDS = 0.002
"""A service that takes less never rests: about fifty pods."""


class ServicePacing:
    """The rate limit: when each service may be computed again."""

    def __init__(self) -> None:
        self._rests_until: dict[ObjectKey, float] = {}

    def wait_seconds(self, key: ObjectKey, now: float) -> float:
        """Seconds until the service may be computed again; 0 if it may be computed now."""
        remaining = self._rests_until.get(key, now) - now
        if remaining <= 0:
            self._rests_until.pop(key, None)
        return max(remaining, 0.0)

    def took(self, key: ObjectKey, seconds: float, now: float) -> None:
        if seconds > FREE_SECONDS:
            self._rests_until[key] = now + seconds / SHARE

    def forget(self, key: ObjectKey) -> None:
        self._rests_until.pop(key, None)


class ServiceWatcher(Controller):
    resource = SERVICES

    def __init__(self, context: ControllerContext, seconds: Callable[[], float] = time.perf_counter) -> None:
        """`seconds` is the clock that measures how long a service takes."""
        super().__init__(context)
        self._services = self.mirror(SERVICES)
        self._pods = self.mirror(PODS)
        self._selectors = SelectorIndex(self._services, plain_selector)
        self._members = ServiceMembers(self._pods, self._selectors, seconds)
        self._pace = ServicePacing()
        self._seconds = seconds
        self.on(self._services, self._of_service)
        self.on(self._pods, self._members.pod_changed)

    def _of_service(self, change: ObjectChange) -> Iterable[ObjectKey]:
        """A service that exists and has endpoints of its own making is enqueued only if there is something to remove."""
        keys = self._members.service_changed(change)
        is_new = change.kind is ChangeType.ADDED
        return () if is_new and not is_managed(change.obj) and not self.has_endpoints(change.key) else keys

    def has_endpoints(self, key: ObjectKey) -> bool:
        """Whether the service has endpoints, of whoever's making."""
        raise NotImplementedError

    async def reconcile(self, key: ObjectKey) -> Result:
        service = self._services.get(key)
        if service is None:
            self._pace.forget(key)
            await self.on_service_deleted(key)
            return DONE
        now = asyncio.get_running_loop().time()
        if wait := self._pace.wait_seconds(key, now):
            return Result(after_seconds=wait)
        await self.sync_service(key, service)
        return DONE

    async def on_service_deleted(self, key: ObjectKey) -> None:
        """Called when the service has been deleted, perhaps more than once."""
        raise NotImplementedError

    async def sync_service(self, key: ObjectKey, service: Object) -> None:
        """Brings the service's endpoints to the desired state."""
        raise NotImplementedError

    async def backends(self, key: ObjectKey, service: Object) -> list[EndpointBackend]:
        """The service's backends. Pods may change while they are read; that enqueues the service again."""
        selector = self._selectors.get(key)
        result: list[EndpointBackend] = []
        names, spent = await self._members.find(key)
        for start in range(0, len(names), PODS_AT_ONCE):
            began = self._seconds()
            batch = [
                pod
                for each in names[start : start + PODS_AT_ONCE]
                if (pod := self._pods.get(each)) is not None
            ]
            result += backends(service, selector, batch)
            spent += self._seconds() - began
            await asyncio.sleep(0)
        self._pace.took(key, spent, asyncio.get_running_loop().time())
        return sorted(result, key=lambda each: str(each.pod["metadata"]["name"]))

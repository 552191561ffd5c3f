"""The pods that each service selects, kept as pods change: a change of one pod costs its services, not all pods of the
namespace."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from alcove.api.objects import labels
from alcove.client.changes import ChangeType, ObjectChange
from alcove.client.keys import ObjectKey
from alcove.client.mirror import Mirror
from alcove.controllers.workloads.selector_index import SelectorIndex

PODS_AT_ONCE = 100
"""Pods that are processed before other tasks may run, so that a large service does not block the event
loop."""


class ServiceMembers:
    def __init__(self, pods: Mirror, selectors: SelectorIndex, seconds: Callable[[], float]) -> None:
        """`selectors` are those of the services; it must get to know of their changes before `service_changed`."""
        self._pods = pods
        self._selectors = selectors
        self._seconds = seconds
        self._members: dict[ObjectKey, dict[str, None]] = {}
        """Names of pods, by service; of a service that nobody has asked for there are none."""
        self._requirements: dict[ObjectKey, object] = {}
        """Of the selector that the members were found with."""

    def pod_changed(self, change: ObjectChange) -> Iterable[ObjectKey]:
        """Returns the services that select the pod, or did before its labels changed."""
        affected = dict.fromkeys(self._selectors.matching(change.key, change.obj))
        old = change.old
        if old is not None and labels(old) != labels(change.obj):
            affected.update(dict.fromkeys(self._selectors.matching(change.key, old)))
        for service in affected:
            members = self._members.get(service)
            if members is None:
                continue
            is_gone = change.kind is ChangeType.DELETED
            if not is_gone and self._selectors.get(service).matches(labels(change.obj)):
                members[change.key.name] = None
            else:
                members.pop(change.key.name, None)
        return affected

    def service_changed(self, change: ObjectChange) -> Iterable[ObjectKey]:
        """Forgets the members of a service that selects others now. Returns the service."""
        key = change.key
        if key in self._members and (
            change.kind is ChangeType.DELETED
            or self._selectors.get(key).requirements != self._requirements[key]
        ):
            self._forget(key)
        return (key,)

    async def find(self, service: ObjectKey) -> tuple[list[ObjectKey], float]:
        """The pods that the service selects, and the seconds that it took to find them."""
        spent = 0.0
        if service not in self._members:
            spent = await self._search(service)
        return [service.of(name) for name in self._members.get(service, ())], spent

    async def _search(self, service: ObjectKey) -> float:
        """Looks at all pods of the namespace. Those that change meanwhile are noticed, too."""
        selector, spent = self._selectors.get(service), 0.0
        members = self._members[service] = {}
        self._requirements[service] = selector.requirements
        keys = self._pods.keys(service.plane, service.tenant, service.namespace)
        try:
            for start in range(0, len(keys), PODS_AT_ONCE):
                began = self._seconds()
                for key in keys[start : start + PODS_AT_ONCE]:
                    pod = self._pods.get(key)
                    if pod is not None and selector.matches(labels(pod)):
                        members[key.name] = None
                spent += self._seconds() - began
                await asyncio.sleep(0)
        except BaseException:
            self._forget(service)
            raise
        return spent

    def _forget(self, service: ObjectKey) -> None:
        self._members.pop(service, None)
        self._requirements.pop(service, None)

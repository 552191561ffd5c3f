"""Autoscalers that select the same pods: neither can know what the other does with them. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from alcove.api.ids import TenantId
from alcove.api.objects import Object, labels
from alcove.api.selectors import LabelSelector
from alcove.client.keys import ObjectKey, PlaneId

_Place = tuple[PlaneId, TenantId, str]


class CompetingAutoscalers:
    """What each autoscaler selects, as it was last seen."""

    def __init__(self) -> None:
        self._places: dict[_Place, dict[str, LabelSelector]] = {}

    def note(self, key: ObjectKey, selector: LabelSelector) -> None:
        self._places.setdefault((key.plane, key.tenant, key.namespace), {})[key.name] = selector

    def forget(self, key: ObjectKey) -> None:
        place = (key.plane, key.tenant, key.namespace)
        names = self._places.get(place, {})
        names.pop(key.name, None)
        if not names:
            self._places.pop(place, None)

    def of(self, key: ObjectKey, pods: Iterable[Object]) -> list[str]:
        """The others, of the same tenant and namespace, that select one of these pods."""
        names = self._places.get((key.plane, key.tenant, key.namespace), {})
        others = {name: selector for name, selector in names.items() if name != key.name}
        if not others:
            return []
        marks = [labels(pod) for pod in pods]
        return sorted(name for name, selector in others.items() if any(map(selector.matches, marks)))

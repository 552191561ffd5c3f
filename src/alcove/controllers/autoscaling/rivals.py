"""Detects autoscalers that select the same pods and so would scale against each other. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from alcove.api.ids import TenantId
from alcove.api.objects import Object, labels
from alcove.api.selectors import LabelSelector
from alcove.client.keys import ObjectKey, PlaneId

_NamespaceKey = tuple[PlaneId, TenantId, str]


class CompetingAutoscalers:
    """The last known pod selector of each autoscaler."""

    def __init__(self) -> None:
        self._selectors: dict[_NamespaceKey, dict[str, LabelSelector]] = {}

    def note(self, key: ObjectKey, selector: LabelSelector) -> None:
        self._selectors.setdefault((key.plane, key.tenant, key.namespace), {})[key.name] = selector

    def forget(self, key: ObjectKey) -> None:
        namespace = (key.plane, key.tenant, key.namespace)
        names = self._selectors.get(namespace, {})
        names.pop(key.name, None)
        if not names:
            self._selectors.pop(namespace, None)

    def of(self, key: ObjectKey, pods: Iterable[Object]) -> list[str]:
        """Names of other autoscalers in the same tenant and namespace that select one of these pods."""
        names = self._selectors.get((key.plane, key.tenant, key.namespace), {})
        others = {name: selector for name, selector in names.items() if name != key.name}
        if not others:
            return []
        pod_labels = [labels(pod) for pod in pods]
        return sorted(name for name, selector in others.items() if any(map(selector.matches, pod_labels)))

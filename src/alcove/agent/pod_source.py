"""Pods bound to the nodes of this process, from all planes: one mirror, whose changes are dispatched by
node."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from alcove.agent.podkey import PodKey
from alcove.api.objects import Object
from alcove.client.changes import ChangeType, ObjectChange
from alcove.client.client import ListSelection
from alcove.client.keys import ObjectKey, PlaneId
from alcove.client.mirror import Mirror
from alcove.client.planes import Planes
from alcove.client.resources import PODS

Offer = Callable[[ObjectChange], None]


class PodSource:
    def __init__(self, planes: Planes, nodes: Mapping[str, Offer]) -> None:
        """With one node, only its pods are watched: a node may not read pods of other nodes."""
        self._planes = planes
        self._nodes = nodes
        only = next(iter(nodes)) if len(nodes) == 1 else ""
        self._mirror: Mirror = planes.mirror(
            ListSelection(PODS, fields=f"spec.nodeName={only}" if only else "")
        )
        self._mirror.subscribe(self._dispatch)

    def is_synced(self, key: PodKey) -> bool:
        """Whether the pods of every plane that the pod may be on have been listed: its tenant may have moved. For a plane
        that was not joined: whether all others have."""
        plane = PlaneId(key.tenant)
        if plane in self._planes and plane not in self._planes.ids():
            return False
        return all(self._mirror.is_synced(each) for each in self._planes.ids())

    def get(self, key: ObjectKey) -> Object | None:
        return self._mirror.get(key)

    def _dispatch(self, change: ObjectChange) -> None:
        now = _node_of(change.obj)
        if change.kind is ChangeType.UPDATED and len(self._nodes) > 1:
            old = change.old
            before = _node_of(old) if old is not None else ""
            if before != now and before in self._nodes:
                self._nodes[before](ObjectChange(ChangeType.DELETED, change.key, change.old or {}))
        if now in self._nodes:
            self._nodes[now](change)


def _node_of(pod: Object) -> str:
    return str((pod.get("spec") or {}).get("nodeName") or "")

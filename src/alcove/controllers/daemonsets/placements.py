"""The daemon sets that a change of a node concerns, and the nodes as daemon sets see them.

Daemon sets whose templates choose nodes alike are compared with a node together, and those for which the change makes no
difference are not reconciled. Nodes are kept decoded, reduced to what decides: every daemon set reads all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import orjson
from msgspec import Struct, field

from alcove.api.objects import Object, get, labels, name
from alcove.client.changes import ChangeType, ObjectChange
from alcove.client.keys import ObjectKey
from alcove.client.mirror import Mirror
from alcove.client.resources import DAEMON_SETS
from alcove.controllers.controller import owner_of
from alcove.controllers.daemonsets.fitting import NodeFit, fit
from alcove.controllers.nodes.pods_by_node import index_by_node, on_node

NO_FIT = NodeFit(False, False)
_SPEC_FIELDS = ("nodeName", "nodeSelector", "tolerations", "hostNetwork")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_owner = owner_of(DAEMON_SETS)


class _Group(Struct):
    """Daemon sets whose templates choose nodes alike."""

    spec: Object
    """The fields of the pod spec that decide."""
    sets: dict[ObjectKey, None] = field(default_factory=dict)


class Placements:
    """Subscribes to the mirrors on construction."""

    def __init__(self, sets: Mirror, nodes: Mirror, pods: Mirror) -> None:
        self.nodes: dict[str, Object] = {}
        """Names, labels and taints of nodes, by name; not to be modified."""
        self._pods = pods
        self._groups: dict[bytes, _Group] = {}
        self._group_of: dict[ObjectKey, bytes] = {}
        index_by_node(pods)
        sets.subscribe(self._follow_set)
        nodes.subscribe(self._follow_node)

    def concerned(self, change: ObjectChange) -> Iterable[ObjectKey]:
        """The daemon sets that have to be reconciled because a node has changed. Heartbeats concern none."""
        before = change.obj if change.kind is ChangeType.DELETED else change.old
        after = None if change.kind is ChangeType.DELETED else change.obj
        if before is not None and after is not None and _reduced(before) == _reduced(after):
            return
        for group in list(self._groups.values()):
            if _differs(group.spec, before, after):
                yield from list(group.sets)
        if before is None or after is None:
            yield from self._with_pods_on(change.key.name)

    def _with_pods_on(self, node: str) -> Iterator[ObjectKey]:
        """The daemon sets of the pods on a node: they may be there although they should not."""
        for key in on_node(self._pods, node):
            pod = self._pods.get(key)
            if pod is not None:
                yield from _owner(ObjectChange(ChangeType.ADDED, key, pod))

    def _follow_set(self, change: ObjectChange) -> None:
        key = change.key
        deciding = _deciding_fields(get(change.obj, "spec", "template", "spec", default={}))
        body = orjson.dumps(deciding, option=orjson.OPT_SORT_KEYS)
        before = self._group_of.pop(key, None)
        if before is not None:
            group = self._groups[before]
            del group.sets[key]
            if not group.sets:
                del self._groups[before]
        if change.kind is not ChangeType.DELETED:
            self._group_of[key] = body
            self._groups.setdefault(body, _Group(deciding)).sets[key] = None

    def _follow_node(self, change: ObjectChange) -> None:
        if change.kind is ChangeType.DELETED:
            self.nodes.pop(change.key.name, None)
        else:
            self.nodes[change.key.name] = _reduced(change.obj)


def _differs(spec: Object, before: Object | None, after: Object | None) -> bool:
    try:
        return _fit(spec, before) != _fit(spec, after)
    except (TypeError, ValueError, KeyError, AttributeError):
        # A malformed spec, of a dedicated plane, must not hide the change from other tenants. Reconciling will fail.
        return True


def _fit(spec: Object, node: Object | None) -> NodeFit:
    """A node that does not exist fits as one that may have no pod."""
    return fit(spec, node) if node is not None else NO_FIT


def _deciding_fields(spec: Object) -> Object:
    deciding = {each: spec[each] for each in _SPEC_FIELDS if spec.get(each)}
    required = get(spec, "affinity", "nodeAffinity", _REQUIRED)
    if required is not None:
        deciding["affinity"] = {"nodeAffinity": {_REQUIRED: required}}
    return deciding


def _reduced(node: Object) -> Object:
    taints = get(node, "spec", "taints", default=[])
    return {"metadata": {"name": name(node), "labels": labels(node)}, "spec": {"taints": taints}}

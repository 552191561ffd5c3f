"""An index of the selectors of a mirror's objects, compiled once, by tenant and namespace.

A change of an object without a controller must find all objects whose selectors match it. With this index
that does not require decoding every candidate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from alcove.api.errors import BadRequest
from alcove.api.objects import Object, get, labels
from alcove.api.selectors import NOTHING, LabelSelector, from_labels, from_object
from alcove.client.changes import ChangeType, ObjectChange
from alcove.client.keys import ObjectKey, PlaneId
from alcove.client.mirror import Mirror
from alcove.client.resources import Resource
from alcove.controllers.controller import Keys, controller_of, owner_of

SelectorOf = Callable[[Object], LabelSelector]
_NamespaceKey = tuple[PlaneId, str, str]


def label_selector(obj: Object) -> LabelSelector:
    """`spec.selector` as a LabelSelector. An invalid one selects nothing."""
    try:
        return from_object(get(obj, "spec", "selector"))
    except BadRequest:
        return NOTHING


def plain_selector(obj: Object) -> LabelSelector:
    """`spec.selector` as a map of labels; an empty one selects nothing."""
    try:
        match_labels = get(obj, "spec", "selector", default={})
        return from_labels(match_labels) if match_labels else NOTHING
    except BadRequest:
        return NOTHING


class SelectorIndex:
    """Subscribes to the mirror on construction."""

    def __init__(self, mirror: Mirror, selector_of: SelectorOf = label_selector) -> None:
        self._selector_of = selector_of
        self._selectors: dict[_NamespaceKey, dict[str, LabelSelector]] = {}
        mirror.subscribe(self._follow)

    def _follow(self, change: ObjectChange) -> None:
        key = change.key
        namespace = (key.plane, key.tenant, key.namespace)
        if change.kind is not ChangeType.DELETED:
            self._selectors.setdefault(namespace, {})[key.name] = self._selector_of(change.obj)
            return
        names = self._selectors.get(namespace, {})
        names.pop(key.name, None)
        if not names:
            self._selectors.pop(namespace, None)

    def get(self, key: ObjectKey) -> LabelSelector:
        return self._selectors.get((key.plane, key.tenant, key.namespace), {}).get(key.name, NOTHING)

    def matching(self, key: ObjectKey, obj: Object) -> Iterable[ObjectKey]:
        """The keys of the objects in this key's tenant and namespace whose selectors match `obj`."""
        obj_labels = labels(obj)
        names = self._selectors.get((key.plane, key.tenant, key.namespace), {})
        return [key.of(name) for name, selector in names.items() if selector.matches(obj_labels)]


def owner_or_selectors(resource: Resource, selectors: SelectorIndex) -> Keys:
    """For `Controller.on`: the changed object's controller; without one, all objects that select it."""
    owner = owner_of(resource)

    def keys(change: ObjectChange) -> Iterable[ObjectKey]:
        yield from owner(change)
        if change.kind is not ChangeType.DELETED and controller_of(change.obj) is None:
            yield from selectors.matching(change.key, change.obj)

    return keys

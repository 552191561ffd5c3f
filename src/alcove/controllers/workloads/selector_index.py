"""Who selects an object: the selectors of a mirror's objects, compiled once, by tenant and namespace.

A change of something without an owner must find all that might want it. Their selectors are kept here,
so that this costs a few calls, not the decoding of every possible owner.
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
_Place = tuple[PlaneId, str, str]


def label_selector(obj: Object) -> LabelSelector:
    """`spec.selector` as most kinds have it. One that cannot be read selects nothing."""
    try:
        return from_object(get(obj, "spec", "selector"))
    except BadRequest:
        return NOTHING


def plain_selector(obj: Object) -> LabelSelector:
    """`spec.selector` as a map of labels; an empty one selects nothing."""
    try:
        desired = get(obj, "spec", "selector", default={})
        return from_labels(desired) if desired else NOTHING
    except BadRequest:
        return NOTHING


class SelectorIndex:
    """Follows a mirror from the moment it is made."""

    def __init__(self, mirror: Mirror, selector_of: SelectorOf = label_selector) -> None:
        self._of = selector_of
        self._places: dict[_Place, dict[str, LabelSelector]] = {}
        mirror.subscribe(self._follow)

    def _follow(self, change: ObjectChange) -> None:
        key = change.key
        place = (key.plane, key.tenant, key.namespace)
        if change.kind is not ChangeType.DELETED:
            self._places.setdefault(place, {})[key.name] = self._of(change.obj)
            return
        names = self._places.get(place, {})
        names.pop(key.name, None)
        if not names:
            self._places.pop(place, None)

    def get(self, key: ObjectKey) -> LabelSelector:
        return self._places.get((key.plane, key.tenant, key.namespace), {}).get(key.name, NOTHING)

    def matching(self, key: ObjectKey, obj: Object) -> Iterable[ObjectKey]:
        """The keys of those that select an object of this key's tenant and namespace."""
        own = labels(obj)
        names = self._places.get((key.plane, key.tenant, key.namespace), {})
        return [key.of(name) for name, selector in names.items() if selector.matches(own)]


def owner_or_selectors(resource: Resource, selectors: SelectorIndex) -> Keys:
    """For `Controller.on`: the owner of what changed; without one, all that select it."""
    owner = owner_of(resource)

    def keys(change: ObjectChange) -> Iterable[ObjectKey]:
        yield from owner(change)
        if change.kind is not ChangeType.DELETED and controller_of(change.obj) is None:
            yield from selectors.matching(change.key, change.obj)

    return keys

"""An index of the selectors of a mirror's objects, compiled once, by tenant and namespace.

A change of an object without a controller must find all objects whose selectors match it. With this index
that does not require decoding every candidate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

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


class _NamespaceSelectors:
    """The selectors of one namespace, by the name of the object, and by a label that they require."""

    __slots__ = ("_by_label", "by_name")

    def __init__(self) -> None:
        self.by_name: dict[str, LabelSelector] = {}
        self._by_label: dict[tuple[str, str] | None, dict[str, LabelSelector]] = {}
        """By the first label and value that the selector requires; by None if it requires none."""

    def put(self, name: str, selector: LabelSelector) -> None:
        self.remove(name)
        self.by_name[name] = selector
        self._by_label.setdefault(_required(selector), {})[name] = selector

    def remove(self, name: str) -> None:
        selector = self.by_name.pop(name, None)
        if selector is not None:
            group = self._by_label[_required(selector)]
            del group[name]
            if not group:
                del self._by_label[_required(selector)]

    def matching(self, obj_labels: Mapping[str, str]) -> Iterable[str]:
        """The names of the objects whose selectors match; those that require another label are not looked at."""
        for label in (None, *obj_labels.items()):
            for name, selector in self._by_label.get(label, {}).items():
                if selector.matches(obj_labels):
                    yield name


class SelectorIndex:
    """Subscribes to the mirror on construction. An object that selects nothing is not in it: every tenant has services
    without selectors."""

    def __init__(self, mirror: Mirror, selector_of: SelectorOf = label_selector) -> None:
        self._selector_of = selector_of
        self._selectors: dict[_NamespaceKey, _NamespaceSelectors] = {}
        mirror.subscribe(self._follow)

    def _follow(self, change: ObjectChange) -> None:
        key = change.key
        namespace = (key.plane, key.tenant, key.namespace)
        selector = NOTHING if change.kind is ChangeType.DELETED else self._selector_of(change.obj)
        if selector is not NOTHING:
            self._selectors.setdefault(namespace, _NamespaceSelectors()).put(key.name, selector)
            return
        selectors = self._selectors.get(namespace)
        if selectors is not None:
            selectors.remove(key.name)
            if not selectors.by_name:
                del self._selectors[namespace]

    def get(self, key: ObjectKey) -> LabelSelector:
        selectors = self._selectors.get((key.plane, key.tenant, key.namespace))
        return NOTHING if selectors is None else selectors.by_name.get(key.name, NOTHING)

    def matching(self, key: ObjectKey, obj: Object) -> Iterable[ObjectKey]:
        """The keys of the objects in this key's tenant and namespace whose selectors match `obj`."""
        selectors = self._selectors.get((key.plane, key.tenant, key.namespace))
        return [] if selectors is None else [key.of(name) for name in selectors.matching(labels(obj))]


def _required(selector: LabelSelector) -> tuple[str, str] | None:
    """A label and value that everything has that the selector matches."""
    return next(iter(selector.as_equality()), None)


def owner_or_selectors(resource: Resource, selectors: SelectorIndex) -> Keys:
    """For `Controller.on`: the changed object's controller; without one, all objects that select it."""
    owner = owner_of(resource)

    def keys(change: ObjectChange) -> Iterable[ObjectKey]:
        yield from owner(change)
        if change.kind is not ChangeType.DELETED and controller_of(change.obj) is None:
            yield from selectors.matching(change.key, change.obj)

    return keys

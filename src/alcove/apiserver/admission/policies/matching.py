"""Which writes a policy or a binding is about: rules on resources, selectors on namespaces and objects."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from alcove.api import selectors
from alcove.api.ids import GroupResource, TenantId
from alcove.api.kind import Kind
from alcove.api.objects import Object, labels
from alcove.api.selectors import LabelSelector
from alcove.apiserver.admission.base import Attributes
from alcove.apiserver.reader import ServedKinds

NAMESPACES = GroupResource("", "namespaces")
TABLES_MOST = 64
Namespace = Callable[[], Object | None]
"""The write's namespace, looked up when it matters."""


class MatchRule(Struct, frozen=True):
    operations: frozenset[str]
    groups: frozenset[str]
    versions: frozenset[str]
    resources: tuple[tuple[str, str], ...]
    """(resource, subresource), either may be `*`."""
    scope: str
    names: frozenset[str]

    @classmethod
    def of(cls, given: Object) -> MatchRule:
        parts = (text.partition("/") for text in given.get("resources") or ())
        return cls(
            frozenset(given.get("operations") or ()),
            frozenset(given.get("apiGroups") or ()),
            frozenset(given.get("apiVersions") or ()),
            tuple((resource, subresource) for resource, _, subresource in parts),
            given.get("scope") or "*",
            frozenset(given.get("resourceNames") or ()),
        )

    def matches(self, attributes: Attributes, kind: Kind) -> bool:
        """Whether this is a rule about the write, taken as one of `kind`."""
        return (
            _has(self.operations, attributes.operation.value)
            and _has(self.groups, kind.group)
            and _has(self.versions, kind.version)
            and self._matches_resource(kind.resource, attributes.subresource)
            and self._matches_scope(attributes)
            and (not self.names or attributes.name in self.names)
        )

    def _matches_resource(self, resource: str, subresource: str) -> bool:
        return any(
            wanted in ("*", resource) and inner in ("*", subresource) for wanted, inner in self.resources
        )

    def _matches_scope(self, attributes: Attributes) -> bool:
        if self.scope == "*":
            return True
        is_namespaced = bool(attributes.namespace) and attributes.resource != NAMESPACES
        return is_namespaced is (self.scope == "Namespaced")


def _has(items: frozenset[str], wanted: str) -> bool:
    return "*" in items or wanted in items


class ResourceMatch:
    """A compiled `matchConstraints` or `matchResources`."""

    def __init__(self, given: Object) -> None:
        """Raises BadRequest for a selector that cannot be read."""
        self._rules = tuple(map(MatchRule.of, given.get("resourceRules") or ()))
        self._excluded = tuple(map(MatchRule.of, given.get("excludeResourceRules") or ()))
        self._is_exact = given.get("matchPolicy") == "Exact"
        self._namespaces = selectors.from_object(given.get("namespaceSelector") or {})
        self._objects = selectors.from_object(given.get("objectSelector") or {})

    def find(self, attributes: Attributes, equivalents: Equivalents, namespace: Namespace) -> Kind | None:
        """The kind as which the write is matched; None if it is not."""
        asked = attributes.requested or attributes.kind
        found = asked if not self._rules else self._matched(self._rules, attributes, asked, equivalents)
        if found is None or self._matched(self._excluded, attributes, asked, equivalents) is not None:
            return None
        if not matches_namespace(self._namespaces, attributes, namespace):
            return None
        return found if self._matches_object(attributes) else None

    def _matched(
        self, rules: Sequence[MatchRule], attributes: Attributes, asked: Kind, equivalents: Equivalents
    ) -> Kind | None:
        if any(rule.matches(attributes, asked) for rule in rules):
            return asked
        if self._is_exact or not rules:
            return None
        for kind in equivalents.of(attributes.tenant, asked):
            if any(rule.matches(attributes, kind) for rule in rules):
                return kind
        return None

    def _matches_object(self, attributes: Attributes) -> bool:
        if self._objects.is_everything:
            return True
        return any(
            obj is not None and self._objects.matches(labels(obj)) for obj in (attributes.obj, attributes.old)
        )


class Equivalents:
    """Other kinds as which the same objects are served (other versions, mostly).

    Tables are kept by the sequence of kinds they were made of, which tenants without CRDs share.
    """

    def __init__(self, kinds: ServedKinds) -> None:
        self._kinds = kinds
        self._kept: dict[int, tuple[Sequence[Kind], dict[GroupResource, list[Kind]]]] = {}

    def of(self, tenant: TenantId, asked: Kind) -> list[Kind]:
        kinds = self._kinds.all(tenant)
        kept = self._kept.get(id(kinds))
        if kept is None or kept[0] is not kinds:
            if len(self._kept) >= TABLES_MOST:
                del self._kept[next(iter(self._kept))]
            table: dict[GroupResource, list[Kind]] = {}
            for kind in kinds:
                table.setdefault(kind.storage_resource, []).append(kind)
            kept = self._kept[id(kinds)] = (kinds, table)
        return [kind for kind in kept[1].get(asked.storage_resource, ()) if kind is not asked]


def matches_namespace(selector: LabelSelector, attributes: Attributes, namespace: Namespace) -> bool:
    """Objects outside of namespaces are never left out; a namespace is selected by its own labels."""
    if selector.is_everything:
        return True
    if attributes.resource == NAMESPACES:
        obj = attributes.obj or attributes.old
        return obj is not None and selector.matches(labels(obj))
    if not attributes.namespace:
        return True
    found = namespace()
    return selector.matches(labels(found) if found is not None else {})

"""The kinds that a policy names without wildcards: its type checking uses their schemas."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice, product

from msgspec import Struct

from alcove.api.ids import GroupVersionKind, TenantId
from alcove.api.kind import Kind
from alcove.api.objects import Object
from alcove.apiserver.reader import ServedKinds

KINDS_MAX = 10
NAMES_MAX = 500
"""Combinations of group, version and resource that are looked up."""


class NamedKinds(Struct, frozen=True):
    matched: Sequence[Kind]
    """Named by a rule, in order."""
    params: Kind | None


def named_kinds(kinds: ServedKinds, tenant: TenantId, spec: Object) -> NamedKinds:
    named = spec.get("paramKind") or {}
    gvk = GroupVersionKind.parse(named.get("apiVersion", ""), named.get("kind", ""))
    by_gvk: dict[GroupVersionKind, Kind] = {}
    for group, version, resource in islice(_names(spec), NAMES_MAX):
        if (kind := kinds.find(tenant, group, version, resource)) is not None:
            by_gvk[kind.gvk] = kind
    matched = [by_gvk[each] for each in sorted(by_gvk)[:KINDS_MAX]]
    return NamedKinds(matched, kinds.find_kind(tenant, gvk.group, gvk.version, gvk.kind))


def _names(spec: Object) -> Iterator[tuple[str, str, str]]:
    """Group, version and resource, as the rules combine them."""
    for rule in (spec.get("matchConstraints") or {}).get("resourceRules") or ():
        groups, versions = rule.get("apiGroups") or (), rule.get("apiVersions") or ()
        if any("*" in each for each in (*groups, *versions)):
            continue
        for resource in rule.get("resources") or ():
            if "*" not in resource and "/" not in resource:
                yield from ((group, version, resource) for group, version in product(groups, versions))

"""One CRD as kinds: one for each version, served or stored."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import count

from alcove.api.ids import GroupVersionKind
from alcove.api.kind import VERBS, Completion, Kind, Scope, Subresource
from alcove.api.objects import Object, get
from alcove.api.schema.defaults import has_defaults
from alcove.api.schema.node import Node
from alcove.api.schema.structural import compile_schema
from alcove.apiserver.crds.columns import columns_of
from alcove.apiserver.crds.conversion import Converter, relabel
from alcove.apiserver.crds.strategy import steps_of, strategy_of

SCALE = GroupVersionKind("autoscaling", "v1", "Scale")
_CHANGE = ("get", "patch", "update")
_NUMBERS = count(1)
_VERSION = re.compile(r"v([0-9]+)(?:(alpha|beta)([0-9]+))?")
_STABILITY = {None: 2, "beta": 1, "alpha": 0}


class Compiled:
    """The kinds of a CRD, made when first asked for. Shared by every tenant that has the same CRD."""

    __slots__ = ("__weakref__", "_converter", "_crd", "_kinds", "_metadata", "served")

    def __init__(self, crd: Object, metadata: Node, converter: Converter | None) -> None:
        self._crd = crd
        self._metadata = metadata
        self._converter = converter
        self._kinds: Mapping[str, Kind] | None = None
        self.served = tuple(each["name"] for each in _by_preference(crd) if each.get("served"))
        """Versions, the preferred one first."""

    @property
    def kinds(self) -> Mapping[str, Kind]:
        """By version: every one that is served, and the stored one."""
        if self._kinds is None:
            versions = [
                each for each in _by_preference(self._crd) if each.get("served") or each.get("storage")
            ]
            self._kinds = {each["name"]: self._kind(each) for each in versions}
        return self._kinds

    @property
    def stored(self) -> Kind:
        return self.kinds[storage_version(self._crd)]

    def _kind(self, version: Object) -> Kind:
        spec, names = self._crd["spec"], get(self._crd, "status", "acceptedNames", default={})
        schema = get(version, "schema", "openAPIV3Schema", default={})
        node = compile_schema(schema, names["kind"], self._metadata)
        own = GroupVersionKind(spec["group"], version["name"], names["kind"])
        terminating = get(self._crd, "metadata", "deletionTimestamp") is not None
        is_one = get(self._crd, "status", "storedVersions", default=[]) == [version["name"]]
        strategy = strategy_of(version, node)
        change = None if is_one or self._converter is not None else relabel(own.api_version)
        return Kind(
            group=spec["group"],
            version=version["name"],
            kind=names["kind"],
            resource=names["plural"],
            singular=names.get("singular") or names["kind"].lower(),
            scope=Scope.NAMESPACE if spec.get("scope") == "Namespaced" else Scope.TENANT,
            schema=node,
            strategy=strategy,
            short_names=tuple(names.get("shortNames") or ()),
            categories=tuple(names.get("categories") or ()),
            # A CRD that is being deleted takes no new objects.
            verbs=tuple(verb for verb in VERBS if verb != "create") if terminating else VERBS,
            subresources=_subresources(version, own),
            columns=columns_of(version),
            storage_version=storage_version(self._crd),
            from_storage=change,
            convert=self._converter.convert if self._converter is not None else None,
            completion=Completion(next(_NUMBERS), strategy.default) if has_defaults(schema) else None,
            list_kind=names.get("listKind") or "",
            scale_paths=_scale_paths(version),
            warning=deprecation(self._crd, version),
        )


def storage_version(crd: Object) -> str:
    return next((each["name"] for each in crd["spec"]["versions"] if each.get("storage")), "")


def preference(version: str) -> tuple[int, int, int, str]:
    """Sorts versions, the most preferred first: `v2`, `v1`, `v1beta2`, `v1alpha1`, then all others by name."""
    match = _VERSION.fullmatch(version)
    if match is None:
        return (1, 0, 0, version)
    major, stage, minor = match.groups()
    return (-_STABILITY[stage], -int(major[:9]), -int((minor or "0")[:9]), "")


def _by_preference(crd: Object) -> Sequence[Object]:
    return sorted(crd["spec"]["versions"], key=lambda version: preference(version["name"]))


def _subresources(version: Object, own: GroupVersionKind) -> tuple[Subresource, ...]:
    given = version.get("subresources") or {}
    found: list[Subresource] = []
    if given.get("status") is not None:
        found.append(Subresource("status", own, _CHANGE))
    if given.get("scale") is not None:
        found.append(Subresource("scale", SCALE, _CHANGE))
    return tuple(found)


def _scale_paths(version: Object) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]] | None:
    scale = get(version, "subresources", "scale")
    if scale is None:
        return None
    wanted, actual = (steps_of(scale.get(f"{part}ReplicasPath") or "") for part in ("spec", "status"))
    return wanted, actual, steps_of(scale.get("labelSelectorPath") or "")


def deprecation(crd: Object, version: Object) -> str:
    """What clients of a deprecated version are warned of; empty if it is not one."""
    if not version.get("deprecated"):
        return ""
    if version.get("deprecationWarning"):
        return str(version["deprecationWarning"])
    group, kind = crd["spec"]["group"], crd["spec"]["names"]["kind"]
    own = preference(version["name"])
    newer = [
        each["name"]
        for each in _by_preference(crd)
        if each.get("served") and not each.get("deprecated") and preference(each["name"]) < own
    ]
    instead = f"; use {group}/{newer[0]} {kind}" if newer else ""
    return f"{group}/{version['name']} {kind} is deprecated{instead}"

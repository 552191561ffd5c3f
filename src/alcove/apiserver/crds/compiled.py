"""One CRD as kinds: one for each version, served or stored."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import count

from alcove.api.ids import GroupVersionKind
from alcove.api.kind import VERBS, Compilation, Completion, Kind, Scope, Subresource
from alcove.api.objects import Object, get
from alcove.api.patch.apply import shape
from alcove.api.schema.defaults import has_defaults
from alcove.api.schema.node import SchemaNode
from alcove.api.schema.prune import apply_defaults
from alcove.api.schema.structural import compile_all, compile_schema
from alcove.apiserver.computing import LARGE_BYTES
from alcove.apiserver.crds.columns import columns_of
from alcove.apiserver.crds.conversion import ConversionParts, Converter, relabel
from alcove.apiserver.crds.strategy import CustomResourceChecks, steps_of, strategy_of

SCALE = GroupVersionKind("autoscaling", "v1", "Scale")
_CHANGE = ("get", "patch", "update")
_NUMBERS = count(1)
_VERSION = re.compile(r"v([0-9]+)(?:(alpha|beta)([0-9]+))?")
_STABILITY = {None: 2, "beta": 1, "alpha": 0}


class CompiledCrd:
    """The kinds of a CRD, compiled on first use. Shared by all tenants with an equal CRD."""

    __slots__ = (
        "__weakref__",
        "_conversion",
        "_crd",
        "_is_large",
        "_kinds",
        "_may_have_defaults",
        "_metadata",
        "served",
    )

    def __init__(
        self, crd: Object, encoded: bytes, metadata: SchemaNode, conversion: ConversionParts | None
    ) -> None:
        """`encoded` has the CRD's spec as JSON. `conversion` is for its conversion webhook; None if its versions
        differ in apiVersion and schema only."""
        self._crd = crd
        self._is_large = len(encoded) > LARGE_BYTES or b'"x-kubernetes-validations"' in encoded
        self._may_have_defaults = b'"default"' in encoded
        self._metadata = metadata
        self._conversion = conversion
        self._kinds: Mapping[str, Kind] | None = None
        self.served = tuple(each["name"] for each in _by_preference(crd) if each.get("served"))
        """Served versions, the preferred one first."""

    @property
    def kinds(self) -> Mapping[str, Kind]:
        """By version: all served versions, and the stored one."""
        if self._kinds is None:
            versions = [
                each for each in _by_preference(self._crd) if each.get("served") or each.get("storage")
            ]
            nodes = {self._gvk(each).api_version: self._node(each) for each in versions}
            parts = self._conversion
            converter = Converter(self._crd, nodes, parts) if parts is not None else None
            completion = None
            if self._may_have_defaults and any(has_defaults(_schema(each)) for each in versions):
                completion = Completion(next(_NUMBERS), partial(_complete, nodes))
            self._kinds = {each["name"]: self._kind(each, nodes, converter, completion) for each in versions}
        return self._kinds

    @property
    def stored(self) -> Kind:
        return self.kinds[storage_version(self._crd)]

    def _gvk(self, version: Object) -> GroupVersionKind:
        kind = get(self._crd, "status", "acceptedNames", "kind", default="")
        return GroupVersionKind(self._crd["spec"]["group"], version["name"], kind)

    def _node(self, version: Object) -> SchemaNode:
        return compile_schema(_schema(version), self._gvk(version).kind, self._metadata)

    def _kind(
        self,
        version: Object,
        nodes: Mapping[str, SchemaNode],
        converter: Converter | None,
        completion: Completion | None,
    ) -> Kind:
        spec, names = self._crd["spec"], get(self._crd, "status", "acceptedNames", default={})
        gvk = self._gvk(version)
        node = nodes[gvk.api_version]
        terminating = get(self._crd, "metadata", "deletionTimestamp") is not None
        is_one = get(self._crd, "status", "storedVersions", default=[]) == [version["name"]]
        change = None if is_one or converter is not None else relabel(gvk.api_version, node)
        checks = CustomResourceChecks(version, node)
        return Kind(
            group=spec["group"],
            version=version["name"],
            kind=names["kind"],
            resource=names["plural"],
            singular=names.get("singular") or names["kind"].lower(),
            scope=Scope.NAMESPACE if spec.get("scope") == "Namespaced" else Scope.TENANT,
            schema=node,
            strategy=strategy_of(version, node, checks),
            short_names=tuple(names.get("shortNames") or ()),
            categories=tuple(names.get("categories") or ()),
            # A CRD that is being deleted allows no new objects.
            verbs=tuple(verb for verb in VERBS if verb != "create") if terminating else VERBS,
            subresources=_subresources(version, gvk),
            columns=columns_of(version),
            storage_version=storage_version(self._crd),
            from_storage=change,
            convert=converter.convert if converter is not None else None,
            completion=completion,
            compilation=Compilation(partial(_compile, node, checks)) if self._is_large else None,
            list_kind=names.get("listKind") or "",
            scale_paths=_scale_paths(version),
            warning=deprecation(self._crd, version),
        )


def _compile(node: SchemaNode, checks: CustomResourceChecks) -> None:
    compile_all(node)
    shape.root(node)
    checks.compile()


def _schema(version: Object) -> Object:
    schema: Object = get(version, "schema", "openAPIV3Schema", default={})
    return schema


def _complete(nodes: Mapping[str, SchemaNode], obj: Object) -> None:
    """Adds the defaults of the version that the object was written with, before it is converted."""
    node = nodes.get(obj["apiVersion"])
    if node is not None:
        apply_defaults(node, obj)


def storage_version(crd: Object) -> str:
    return next((each["name"] for each in crd["spec"]["versions"] if each.get("storage")), "")


def preference(version: str) -> tuple[int, int, int, str]:
    """Sorts versions, the most preferred first: `v2`, `v1`, `v1beta2`, `v1alpha1`, then all others by
    name."""
    match = _VERSION.fullmatch(version)
    if match is None:
        return (1, 0, 0, version)
    major, stage, minor = match.groups()
    return (-_STABILITY[stage], -int(major[:9]), -int((minor or "0")[:9]), "")


def _by_preference(crd: Object) -> Sequence[Object]:
    return sorted(crd["spec"]["versions"], key=lambda version: preference(version["name"]))


def _subresources(version: Object, gvk: GroupVersionKind) -> tuple[Subresource, ...]:
    configured = version.get("subresources") or {}
    subresources: list[Subresource] = []
    if configured.get("status") is not None:
        subresources.append(Subresource("status", gvk, _CHANGE))
    if configured.get("scale") is not None:
        subresources.append(Subresource("scale", SCALE, _CHANGE))
    return tuple(subresources)


def _scale_paths(version: Object) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]] | None:
    scale = get(version, "subresources", "scale")
    if scale is None:
        return None
    desired, actual = (steps_of(scale.get(f"{part}ReplicasPath") or "") for part in ("spec", "status"))
    return desired, actual, steps_of(scale.get("labelSelectorPath") or "")


def deprecation(crd: Object, version: Object) -> str:
    """The warning for clients of a deprecated version; empty if it is not deprecated."""
    if not version.get("deprecated"):
        return ""
    if version.get("deprecationWarning"):
        return str(version["deprecationWarning"])
    group, kind = crd["spec"]["group"], crd["spec"]["names"]["kind"]
    own_preference = preference(version["name"])
    newer = [
        each["name"]
        for each in _by_preference(crd)
        if each.get("served") and not each.get("deprecated") and preference(each["name"]) < own_preference
    ]
    instead = f"; use {group}/{newer[0]} {kind}" if newer else ""
    return f"{group}/{version['name']} {kind} is deprecated{instead}"

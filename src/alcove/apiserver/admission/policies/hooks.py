"""A tenant's policies with their bindings, compiled and cached until one of them changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from alcove.api.errors import BadRequest
from alcove.api.ids import GroupResource, TenantId
from alcove.api.objects import Object, name
from alcove.apiserver.admission.policies.matching import ResourceMatch
from alcove.apiserver.reader import CacheReader

TENANTS_MOST = 4096


class Binding(Struct, frozen=True):
    name: str
    match: ResourceMatch | None
    """None if the binding does not restrict the policy's matches."""
    params: Object | None
    actions: tuple[str, ...]
    fault: str = ""


class Hook(Struct, frozen=True):
    """A policy with its bindings."""

    name: str
    spec: Object
    match: ResourceMatch | None
    fault: str
    """The error if the policy cannot be used; `match` is then None."""
    bindings: Sequence[Binding]

    @property
    def ignores_errors(self) -> bool:
        return self.spec.get("failurePolicy") == "Ignore"


class PolicyHooks:
    """Tenants' policies of one kind, cached until one of them or of their bindings changes."""

    def __init__(self, reader: CacheReader, policies: GroupResource, bindings: GroupResource) -> None:
        self._reader = reader
        self._policies = policies
        self._bindings = bindings
        self._cached: dict[TenantId, tuple[tuple[int, int], Sequence[Hook]]] = {}

    def of(self, tenant: TenantId) -> Sequence[Hook]:
        generation = self._reader.generation(tenant, self._policies)
        if not generation:
            return ()
        generations = (generation, self._reader.generation(tenant, self._bindings))
        cached = self._cached.get(tenant)
        if cached is not None and cached[0] == generations:
            return cached[1]
        if cached is None and len(self._cached) >= TENANTS_MOST:
            del self._cached[next(iter(self._cached))]
        hooks = tuple(self._make(tenant))
        self._cached[tenant] = (generations, hooks)
        return hooks

    def _make(self, tenant: TenantId) -> Iterator[Hook]:
        bound: dict[str, list[Binding]] = {}
        for binding in self._reader.list(tenant, self._bindings):
            bound.setdefault((binding.get("spec") or {}).get("policyName", ""), []).append(_binding(binding))
        for policy in self._reader.list(tenant, self._policies):
            bindings = bound.get(name(policy))
            if bindings:
                spec = policy.get("spec") or {}
                match, fault = _match(spec.get("matchConstraints") or {})
                yield Hook(name(policy), spec, match, fault, bindings)


def _match(spec: Object) -> tuple[ResourceMatch | None, str]:
    try:
        return ResourceMatch(spec), ""
    except BadRequest as error:
        return None, error.message


def _binding(obj: Object) -> Binding:
    spec = obj.get("spec") or {}
    resources = spec.get("matchResources")
    match, fault = _match(resources) if resources is not None else (None, "")
    return Binding(name(obj), match, spec.get("paramRef"), tuple(spec.get("validationActions") or ()), fault)

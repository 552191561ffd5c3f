"""A tenant's policies with their bindings, ready to be asked; kept until one of them changes."""

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
    """None: wherever the policy matches."""
    params: Object | None
    actions: tuple[str, ...]
    fault: str = ""


class Hook(Struct, frozen=True):
    """A policy with its bindings, ready to be asked."""

    name: str
    spec: Object
    match: ResourceMatch | None
    fault: str
    """Why the policy cannot be used; then `match` is None."""
    bindings: Sequence[Binding]

    @property
    def ignores_errors(self) -> bool:
        return self.spec.get("failurePolicy") == "Ignore"


class PolicyHooks:
    """A tenant's policies of one kind, kept until one of them or of their bindings changes."""

    def __init__(self, reader: CacheReader, policies: GroupResource, bindings: GroupResource) -> None:
        self._reader = reader
        self._policies = policies
        self._bindings = bindings
        self._known: dict[TenantId, tuple[tuple[int, int], Sequence[Hook]]] = {}

    def of(self, tenant: TenantId) -> Sequence[Hook]:
        generation = self._reader.generation(tenant, self._policies)
        if not generation:
            return ()
        generations = (generation, self._reader.generation(tenant, self._bindings))
        known = self._known.get(tenant)
        if known is not None and known[0] == generations:
            return known[1]
        if known is None and len(self._known) >= TENANTS_MOST:
            del self._known[next(iter(self._known))]
        hooks = tuple(self._make(tenant))
        self._known[tenant] = (generations, hooks)
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


def _match(given: Object) -> tuple[ResourceMatch | None, str]:
    try:
        return ResourceMatch(given), ""
    except BadRequest as error:
        return None, error.message


def _binding(obj: Object) -> Binding:
    spec = obj.get("spec") or {}
    given = spec.get("matchResources")
    match, fault = _match(given) if given is not None else (None, "")
    return Binding(name(obj), match, spec.get("paramRef"), tuple(spec.get("validationActions") or ()), fault)

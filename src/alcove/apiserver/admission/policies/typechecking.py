"""Computes `status.typeChecking` of a validating policy: type errors of its expressions for the kinds in its
rules.

An expression is accepted without the type of `object`, which may be of many kinds. It is checked again with
the type of every kind that the rules name without wildcards, and errors are reported in the status. They do
not affect the evaluation of the policy.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from alcove.api.cel.node_types import NodeTypes
from alcove.api.cel.types import CelType
from alcove.api.ids import GroupVersionKind, TenantId
from alcove.api.kind import Kind
from alcove.api.objects import Object
from alcove.apiserver.admission.policies.compiled import Compiler
from alcove.apiserver.reader import ServedKinds

KINDS_MOST = 10
TEXT_MOST = 20_000
"""Maximum length of the expressions times the number of kinds, since compiling blocks the server; beyond
that, fewer kinds are checked."""


def status(kinds: ServedKinds, tenant: TenantId, policy: Object) -> Object:
    """The policy's status after this check."""
    warnings = list(_warnings(kinds, tenant, policy.get("spec") or {}))
    return {
        **(policy.get("status") or {}),
        "observedGeneration": policy["metadata"].get("generation", 0),
        "typeChecking": {"expressionWarnings": warnings} if warnings else {},
    }


def _warnings(kinds: ServedKinds, tenant: TenantId, spec: Object) -> Iterator[Object]:
    expressions = list(_expressions(spec))
    variables = spec.get("variables") or ()
    length = sum(len(each.get("expression", "")) for each in variables) + sum(
        len(text) for _, text in expressions
    )
    matched = _matched(kinds, tenant, spec)[: min(KINDS_MOST, TEXT_MOST // max(length, 1))]
    params = _params(kinds, tenant, spec)
    compilers = [(kind.gvk, _compiler(kind, params, spec, variables)) for kind in matched]
    for path, source in expressions:
        messages = [_message(gvk, compiler, source) for gvk, compiler in compilers]
        if any(messages):
            yield {"fieldRef": path, "warning": "\n".join(filter(None, messages))}


def _expressions(spec: Object) -> Iterator[tuple[str, str]]:
    for index, validation in enumerate(spec.get("validations") or ()):
        for field in ("expression", "messageExpression"):
            if validation.get(field):
                yield f"spec.validations[{index}].{field}", validation[field]


def _matched(kinds: ServedKinds, tenant: TenantId, spec: Object) -> Sequence[Kind]:
    """The kinds that a rule names without a wildcard, in order."""
    by_gvk: dict[GroupVersionKind, Kind] = {}
    for rule in (spec.get("matchConstraints") or {}).get("resourceRules") or ():
        groups, versions = rule.get("apiGroups") or (), rule.get("apiVersions") or ()
        if any("*" in each for each in (*groups, *versions)):
            continue
        for resource in rule.get("resources") or ():
            if "*" not in resource and "/" not in resource:
                named = (
                    kinds.find(tenant, group, version, resource) for group in groups for version in versions
                )
                by_gvk.update((kind.gvk, kind) for kind in named if kind is not None)
    return [by_gvk[gvk] for gvk in sorted(by_gvk)]


def _params(kinds: ServedKinds, tenant: TenantId, spec: Object) -> Kind | None:
    named = spec.get("paramKind") or {}
    gvk = GroupVersionKind.parse(named.get("apiVersion", ""), named.get("kind", ""))
    return kinds.find_kind(tenant, gvk.group, gvk.version, gvk.kind)


def _compiler(kind: Kind, params: Kind | None, spec: Object, variables: Iterable[Object]) -> Compiler:
    types = NodeTypes()
    object_type = types.of(kind.schema)
    typed: Mapping[str, CelType] = {"object": object_type, "oldObject": object_type}
    if params is not None:
        typed = {**typed, "params": types.of(params.schema)}
    return Compiler(has_params=spec.get("paramKind") is not None, variables=variables, typed=typed)


def _message(gvk: GroupVersionKind, compiler: Compiler, source: str) -> str:
    error = compiler.compile(source).error.removeprefix("compilation failed: ")
    return f"{gvk.group}/{gvk.version}, Kind={gvk.kind}: {error}\n" if error else ""

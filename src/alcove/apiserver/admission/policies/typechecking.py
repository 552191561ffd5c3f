"""Computes `status.typeChecking` of a validating policy: type errors of its expressions for the kinds in its
rules.

An expression is accepted without the type of `object`, which may be of many kinds. It is checked again with
the type of every kind that the rules name without wildcards, and errors are reported in the status. They do
not affect the evaluation of the policy.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from alcove.api.cel.node_types import NodeTypes
from alcove.api.cel.types import CelType
from alcove.api.ids import GroupVersionKind
from alcove.api.kind import Kind
from alcove.api.objects import Object
from alcove.apiserver.admission.policies.compiled import Compiler
from alcove.apiserver.admission.policies.named_kinds import NamedKinds

TEXT_MOST = 20_000
"""Maximum length of the expressions times the number of kinds, since compiling takes long; beyond that, fewer
kinds are checked."""


def status(kinds: NamedKinds, policy: Object) -> Object:
    """The policy's status after this check."""
    warnings = list(_warnings(kinds, policy.get("spec") or {}))
    return {
        **(policy.get("status") or {}),
        "observedGeneration": policy["metadata"].get("generation", 0),
        "typeChecking": {"expressionWarnings": warnings} if warnings else {},
    }


def _warnings(kinds: NamedKinds, spec: Object) -> Iterator[Object]:
    expressions = list(_expressions(spec))
    variables = spec.get("variables") or ()
    length = sum(len(each.get("expression", "")) for each in variables) + sum(
        len(text) for _, text in expressions
    )
    matched = kinds.matched[: TEXT_MOST // max(length, 1)]
    compilers = [(kind.gvk, _compiler(kind, kinds.params, spec, variables)) for kind in matched]
    for path, source in expressions:
        messages = [_message(gvk, compiler, source) for gvk, compiler in compilers]
        if any(messages):
            yield {"fieldRef": path, "warning": "\n".join(filter(None, messages))}


def _expressions(spec: Object) -> Iterator[tuple[str, str]]:
    for index, validation in enumerate(spec.get("validations") or ()):
        for field in ("expression", "messageExpression"):
            if validation.get(field):
                yield f"spec.validations[{index}].{field}", validation[field]


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

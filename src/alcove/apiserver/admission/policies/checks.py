"""Whether a policy's expressions compile, told when the policy is written."""

from __future__ import annotations

from collections.abc import Iterator

from alcove.api.cel.types import BOOL, NULL, STRING, CelType, list_of
from alcove.api.fields import FieldError, forbidden, invalid
from alcove.api.objects import Object
from alcove.apiserver.admission.policies.compiled import Compiler
from alcove.apiserver.admission.policies.mutating import JSON_PATCH, Structs

TEXT_MOST = 100_000
"""Characters that all expressions of a policy may have: they take half a second to compile."""

_Entry = tuple[str, str, tuple[CelType, ...]]
"""Path, expression, wanted types."""


def validating_faults(spec: Object) -> list[FieldError]:
    return _faults(spec, list(_validating(spec)), None)


def mutating_faults(spec: Object) -> list[FieldError]:
    structs = Structs()
    return _faults(spec, list(_mutating(spec, structs)), structs)


def _validating(spec: Object) -> Iterator[_Entry]:
    for index, each in enumerate(spec.get("validations") or ()):
        path = f"spec.validations[{index}]"
        yield f"{path}.expression", each.get("expression", ""), (BOOL,)
        if each.get("messageExpression"):
            yield f"{path}.messageExpression", each["messageExpression"], (STRING,)
    for index, each in enumerate(spec.get("auditAnnotations") or ()):
        path = f"spec.auditAnnotations[{index}].valueExpression"
        yield path, each.get("valueExpression", ""), (STRING, NULL)


def _mutating(spec: Object, structs: Structs) -> Iterator[_Entry]:
    for index, each in enumerate(spec.get("mutations") or ()):
        for field, wanted in (
            ("jsonPatch", (list_of(JSON_PATCH),)),
            ("applyConfiguration", (structs["Object"],)),
        ):
            if each.get(field):
                path = f"spec.mutations[{index}].{field}.expression"
                yield path, each[field].get("expression", ""), wanted


def _faults(spec: Object, own: list[_Entry], structs: Structs | None) -> list[FieldError]:
    variables, conditions = spec.get("variables") or (), spec.get("matchConditions") or ()
    given = [each.get("expression", "") for each in (*variables, *conditions)]
    if sum(map(len, given)) + sum(len(source) for _, source, _ in own) > TEXT_MOST:
        return [forbidden("spec", f"expressions must not have more than {TEXT_MOST} characters together")]
    compiler = Compiler(has_params=spec.get("paramKind") is not None, variables=variables, structs=structs)
    faults: list[FieldError] = []
    for index, variable in enumerate(variables):
        expression = compiler.variables[variable.get("name", "")]
        if expression.program is None:
            path = f"spec.variables[{index}].expression"
            faults.append(invalid(path, variable.get("expression", ""), expression.error))
    for index, condition in enumerate(conditions):
        own.append((f"spec.matchConditions[{index}].expression", condition.get("expression", ""), (BOOL,)))
    for path, source, wanted in own:
        expression = compiler.compile(source, wanted)
        if expression.program is None:
            faults.append(invalid(path, source, expression.error))
    return faults

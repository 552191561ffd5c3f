"""Checks whether a policy's expressions compile, when the policy is written."""

from __future__ import annotations

from collections.abc import Iterator

from alcove.api.cel.types import BOOL, NULL, STRING, CelType, list_of
from alcove.api.fields import FieldError, forbidden, invalid
from alcove.api.objects import Object
from alcove.apiserver.admission.policies.compiled import Compiler
from alcove.apiserver.admission.policies.mutating import JSON_PATCH, Structs

TEXT_MOST = 100_000
"""Maximum length of all expressions of a policy together: so many characters take half a second to
compile."""

_Entry = tuple[str, str, tuple[CelType, ...]]
"""Path, expression, allowed result types."""


def validating_faults(spec: Object) -> list[FieldError]:
    return _errors(spec, list(_validating(spec)), None)


def mutating_faults(spec: Object) -> list[FieldError]:
    structs = Structs()
    return _errors(spec, list(_mutating(spec, structs)), structs)


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
        for field, allowed_types in (
            ("jsonPatch", (list_of(JSON_PATCH),)),
            ("applyConfiguration", (structs["Object"],)),
        ):
            if each.get(field):
                path = f"spec.mutations[{index}].{field}.expression"
                yield path, each[field].get("expression", ""), allowed_types


def _errors(spec: Object, entries: list[_Entry], structs: Structs | None) -> list[FieldError]:
    variables, conditions = spec.get("variables") or (), spec.get("matchConditions") or ()
    sources = [each.get("expression", "") for each in (*variables, *conditions)]
    if sum(map(len, sources)) + sum(len(source) for _, source, _ in entries) > TEXT_MOST:
        return [forbidden("spec", f"expressions must not have more than {TEXT_MOST} characters together")]
    compiler = Compiler(has_params=spec.get("paramKind") is not None, variables=variables, structs=structs)
    errors: list[FieldError] = []
    for index, variable in enumerate(variables):
        expression = compiler.variables[variable.get("name", "")]
        if expression.program is None:
            path = f"spec.variables[{index}].expression"
            errors.append(invalid(path, variable.get("expression", ""), expression.error))
    for index, condition in enumerate(conditions):
        entries.append(
            (f"spec.matchConditions[{index}].expression", condition.get("expression", ""), (BOOL,))
        )
    for path, source, allowed_types in entries:
        expression = compiler.compile(source, allowed_types)
        if expression.program is None:
            errors.append(invalid(path, source, expression.error))
    return errors

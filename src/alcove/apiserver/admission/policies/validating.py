"""ValidatingAdmissionPolicy: evaluates a policy for one write."""

from __future__ import annotations

from msgspec import Struct

from alcove.api.cel.types import BOOL, NULL, STRING
from alcove.api.objects import Object
from alcove.apiserver.admission.policies.compiled import (
    ROUND_COST,
    BudgetExhausted,
    Compiler,
    Conditions,
    EvaluationError,
    Expression,
    bind,
    evaluate,
)
from alcove.apiserver.admission.policies.variables import Activation

MESSAGE_MOST_BYTES = 5 * 1024
ANNOTATION_MOST = 10 * 1024


class ValidationFailure(Struct, frozen=True):
    """A validation that is false or could not be evaluated."""

    index: int
    message: str
    reason: str = ""


class ValidationResult(Struct):
    failures: list[ValidationFailure]
    annotations: dict[str, str]
    """For the audit record."""


class _Validation(Struct, frozen=True):
    expression: Expression
    message: str
    message_expression: Expression | None
    reason: str


class ValidatingPolicy:
    """Compiled from `spec` only, so that policies with equal specs share it."""

    def __init__(self, spec: Object) -> None:
        compiler = Compiler(
            has_params=spec.get("paramKind") is not None, variables=spec.get("variables") or ()
        )
        self._variables = compiler.variables
        self._ignores_errors = spec.get("failurePolicy") == "Ignore"
        conditions = spec.get("matchConditions") or ()
        self._conditions = Conditions(conditions, compiler) if conditions else None
        self._validations = [_compile(each, compiler) for each in spec.get("validations") or ()]
        self._annotations = [
            (each.get("key", ""), compiler.compile(each.get("valueExpression", ""), (STRING, NULL)))
            for each in spec.get("auditAnnotations") or ()
        ]

    def judge(self, activation: Activation) -> ValidationResult:
        result = ValidationResult([], {})
        activation.budget.left -= ROUND_COST
        bind(self._variables, activation)
        try:
            if self._conditions is not None and not self._conditions.hold(activation):
                return result
            for index, validation in enumerate(self._validations):
                self._validate(index, validation, activation, result)
            for key, expression in self._annotations:
                self._annotate(key, expression, activation, result)
        except EvaluationError as error:
            self._fail(-1, error, result)
        return result

    def _fail(self, index: int, error: EvaluationError, result: ValidationResult) -> None:
        if not self._ignores_errors:
            result.failures.append(ValidationFailure(index, str(error)))

    def _validate(
        self, index: int, validation: _Validation, activation: Activation, result: ValidationResult
    ) -> None:
        try:
            holds = evaluate(validation.expression, activation)
        except BudgetExhausted:
            raise
        except EvaluationError as error:
            self._fail(index, error, result)
            return
        if holds is not True:
            message = _message(validation, activation)
            result.failures.append(ValidationFailure(index, message, validation.reason))

    def _annotate(
        self, key: str, expression: Expression, activation: Activation, result: ValidationResult
    ) -> None:
        try:
            value = evaluate(expression, activation)
            if value is not None and not isinstance(value, str):
                message = "Return type must be either string or null."
                raise EvaluationError(
                    f"valueExpression '{expression.source}' resulted in unsupported return type. {message}"
                )
        except BudgetExhausted:
            raise
        except EvaluationError as error:
            self._fail(-1, error, result)
            return
        if value and value.strip():
            result.annotations[key] = value.strip()[:ANNOTATION_MOST]


def _compile(validation: Object, compiler: Compiler) -> _Validation:
    source = validation.get("messageExpression", "")
    return _Validation(
        compiler.compile(validation.get("expression", ""), (BOOL,)),
        (validation.get("message") or "").strip(),
        compiler.compile(source, (STRING,)) if source else None,
        validation.get("reason") or "Invalid",
    )


def _message(validation: _Validation, activation: Activation) -> str:
    text = ""
    if validation.message_expression is not None:
        try:
            value = evaluate(validation.message_expression, activation)
            text = value.strip() if isinstance(value, str) else ""
        except EvaluationError:
            text = ""
        if "\n" in text or len(text.encode()) > MESSAGE_MOST_BYTES:
            text = ""
    return text or validation.message or f"failed expression: {validation.expression.source.strip()}"

"""Compiles a policy's expressions in one environment; an expression that does not compile fails when it is
evaluated."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from msgspec import Struct

from alcove.api.cel.budget import CALL_MOST, CostBudget
from alcove.api.cel.declarations import Functions, merge
from alcove.api.cel.environment import CelEnvironment, Program
from alcove.api.cel.errors import CelError, CompileError, OutOfBudget
from alcove.api.cel.library.authorization import AUTHORIZATION
from alcove.api.cel.library.kubernetes import KUBERNETES
from alcove.api.cel.library.patches import PATCHES
from alcove.api.cel.types import BOOL, DYN, CelType
from alcove.api.objects import Object
from alcove.apiserver.admission.policies.variables import Activation, LazyVariables, declarations

ROUND_COST = 1_000
"""Fixed cost of evaluating a policy with one parameter object, in addition to its expressions."""
EXHAUSTED = "validation failed due to running out of cost budget, no further validation rules will be run"

FUNCTIONS: Functions = {**KUBERNETES, **merge((AUTHORIZATION, PATCHES))}


class EvaluationError(Exception):
    """An expression failed; the message is that of Kubernetes."""


class BudgetExhausted(EvaluationError):
    """The request's CEL budget is spent: nothing more is evaluated."""

    def __init__(self) -> None:
        super().__init__(EXHAUSTED)


class Expression(Struct, frozen=True):
    source: str
    program: Program | None
    error: str = ""
    """The reason if there is no program."""


def evaluate(expression: Expression, activation: Activation) -> Any:
    """Raises EvaluationError, and BudgetExhausted if the request's budget is spent."""
    if expression.program is None:
        raise EvaluationError(f"compilation error: {expression.error}")
    request = activation.budget
    if request.is_exhausted:
        raise BudgetExhausted
    granted = min(CALL_MOST, request.left)
    budget = CostBudget(granted)
    try:
        return expression.program.evaluate(activation.values, budget)
    except OutOfBudget as error:
        raise BudgetExhausted from error
    except CelError as error:
        raise EvaluationError(f"expression '{expression.source}' resulted in error: {error}") from error
    finally:
        request.left -= granted - budget.left


class Compiler:
    """Compiles expressions with the variables of a policy; a variable may use earlier ones."""

    def __init__(
        self,
        *,
        has_params: bool,
        variables: Iterable[Object] = (),
        structs: Mapping[str, CelType] | None = None,
        typed: Mapping[str, CelType] | None = None,
    ) -> None:
        """`typed` has types for variables that are otherwise dynamic: `object`, `oldObject`, `params`."""
        self._has_params = has_params
        self._typed = typed or {}
        self._structs = structs
        self.variables: dict[str, Expression] = {}
        types: dict[str, CelType] = {}
        self._environment = self._make({})
        for variable in variables:
            name = variable.get("name", "")
            expression = self.compile(variable.get("expression", ""))
            self.variables[name] = expression
            types[name] = expression.program.result if expression.program is not None else DYN
            self._environment = self._make(types)

    def _make(self, types: Mapping[str, CelType]) -> CelEnvironment:
        declared = declarations(has_params=self._has_params, variables=types)
        declared.update((name, of) for name, of in self._typed.items() if name in declared)
        return CelEnvironment(declared, FUNCTIONS, self._structs)

    def compile(self, source: str, wanted: Sequence[CelType] = ()) -> Expression:
        """`wanted` are the allowed result types; all if it is empty."""
        try:
            program = self._environment.compile(source)
        except CompileError as error:
            return Expression(source, None, f"compilation failed: {error}")
        if wanted and program.result not in wanted:
            message = str(wanted[0]) if len(wanted) == 1 else f"one of [{' '.join(map(str, wanted))}]"
            return Expression(source, None, f"must evaluate to {message} but got {program.result}")
        return Expression(source, program)


def bind(variables: Mapping[str, Expression], activation: Activation) -> None:
    """Make the variables available to the activation's expressions."""
    makers = {name: partial(_variable, each, activation) for name, each in variables.items()}
    activation.bind_variables(LazyVariables(makers))


def _variable(expression: Expression, activation: Activation) -> Any:
    try:
        return evaluate(expression, activation)
    except BudgetExhausted:
        raise OutOfBudget from None
    except EvaluationError as error:
        raise CelError(f"composited variable fails to evaluate: {error}") from error


class MatchCondition(Struct, frozen=True):
    name: str
    expression: Expression


class Conditions:
    """Match conditions: all must hold for a policy (or webhook) to apply to a write."""

    def __init__(self, given: Iterable[Object], compiler: Compiler) -> None:
        self._conditions = [
            MatchCondition(each.get("name", ""), compiler.compile(each.get("expression", ""), (BOOL,)))
            for each in given
        ]

    def hold(self, activation: Activation) -> bool:
        """Whether all conditions hold. Raises EvaluationError if a condition fails and no other one is
        false."""
        failures: list[str] = []
        for condition in self._conditions:
            try:
                if evaluate(condition.expression, activation) is False:
                    return False
            except EvaluationError as error:
                failures.append(str(error))
        if failures:
            raise EvaluationError(failures[0] if len(failures) == 1 else f"[{', '.join(failures)}]")
        return True

"""The entry point to CEL: an environment of variables compiles sources into programs.

environment = CelEnvironment({"self": schema_type, "oldSelf": schema_type})
program = environment.compile("self.replicas <= 10")
program.evaluate((self_value, old_value), CostBudget())
"""

from collections.abc import Mapping, Sequence
from typing import Any

from alcove.api.cel.ast import (
    AstNode,
    CallNode,
    Comprehension,
    Ident,
    ListLiteral,
    MapLiteral,
    Select,
    StructLiteral,
)
from alcove.api.cel.budget import CostBudget
from alcove.api.cel.checker import check
from alcove.api.cel.declarations import Functions
from alcove.api.cel.errors import OutOfBudget
from alcove.api.cel.library.kubernetes import KUBERNETES
from alcove.api.cel.parser import parse
from alcove.api.cel.planner import Planner
from alcove.api.cel.steps import Step
from alcove.api.cel.types import CelType


class Program:
    """A compiled expression. `evaluate` may be called any number of times."""

    __slots__ = ("_cost", "_room", "_step", "result", "source", "uses")

    def __init__(
        self, source: str, step: Step, cost: int, room: int, result: CelType, uses: frozenset[str]
    ) -> None:
        self._step = step
        self._cost = cost
        self._room = [None] * room
        self.source = source
        self.result = result
        """The static type of the result."""
        self.uses = uses
        """Names of the environment's variables that the expression reads."""

    def evaluate(self, values: Sequence[Any], budget: CostBudget) -> Any:
        """Evaluate with the variables' `values`, given in the order of their declaration.

        Raises CelError, OutOfBudget and LongEvaluation (then part of the budget is already spent).
        """
        try:
            budget.spend(self._cost)
            return self._step([budget, *values, *self._room])
        except RecursionError:  # The values are nested too deep to compare.
            raise OutOfBudget from None
        finally:
            budget.close()


class CelEnvironment:
    """Variables, functions and constructible types that expressions may use."""

    def __init__(
        self,
        variables: Mapping[str, CelType],
        functions: Functions = KUBERNETES,
        structs: Mapping[str, CelType] | None = None,
    ) -> None:
        self._variables = dict(variables)
        self._functions = functions
        self._structs = structs if structs is not None else {}

    def compile(self, source: str) -> Program:
        """Compile an expression. Raises CompileError."""
        root = parse(source)
        check(source, root, self._functions, self._variables, self._structs)
        planner = Planner(self._variables)
        step = planner.plan(root)
        room = planner.width - 1 - len(self._variables)
        uses = frozenset(_free_names(root)) & self._variables.keys()
        return Program(source, step, planner.cost, room, root.type, uses)


def _free_names(root: AstNode) -> set[str]:
    """Return the names that are read and not bound by a comprehension around them."""
    free: set[str] = set()
    pending: list[tuple[AstNode, frozenset[str]]] = [(root, frozenset())]
    while pending:
        node, bound = pending.pop()
        if isinstance(node, Ident) and node.constant is None and node.name not in bound:
            free.add(node.name)
        if isinstance(node, Comprehension):
            pending.append((node.source, bound))
            inner = bound | set(node.variables)
            pending.extend((each, inner) for each in (node.filter, node.body) if each is not None)
        else:
            pending.extend((child, bound) for child in _children(node))
    return free


def _children(node: AstNode) -> list[AstNode]:
    match node:
        case Select():
            return [node.operand]
        case CallNode():
            return [*node.args, *([node.target] if node.target else [])]
        case ListLiteral():
            return node.items
        case MapLiteral():
            return [part for entry in node.entries for part in (entry.key, entry.value)]
        case StructLiteral():
            return [entry.value for entry in node.entries]
    return []

"""No expression runs long: hostile rules run out of budget, quickly and with little memory."""

import time
import tracemalloc
from typing import Any

import pytest

from alcove.api.cel.budget import CALL_MOST, CostBudget
from alcove.api.cel.environment import CelEnvironment
from alcove.api.cel.errors import CelError, CompileError, OutOfBudget
from alcove.api.cel.types import DYN

ENVIRONMENT = CelEnvironment({"self": DYN})
NUMBERS = list(range(3_000))
TEXTS = ["a" * 1_000 + str(number) for number in range(2_000)]


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("self.all(a, self.all(b, self.all(c, self.all(d, true))))", NUMBERS),
        ("self.map(a, self.map(b, a * b)).size() > 0", NUMBERS),
        ("self.exists(a, self.exists(b, a == b && a < 0))", TEXTS),
        ("self.all(a, self.indexOf(a) >= 0)", TEXTS),
        ("self.all(a, a in self)", NUMBERS),
        ("self.all(a, self == self)", NUMBERS),
        ("lists.range(1000000000).size() > 0", None),
        ("lists.range(9223372036854775807).all(x, true)", None),
        ("self" + ".map(x, x + x)" * 40 + ".size() > 0", ["ab" * 1_000]),
        ("self" + ".map(x, [x, x].join())" * 40 + ".size() > 0", ["ab" * 1_000]),
        ("self" + ".map(x, x.replace('', x))" * 10 + ".size() > 0", ["ab" * 1_000]),
        ("self" + ".map(x, [x, x])" * 45 + ".flatten().size() > 0", list(range(100))),
        ("self.all(a, '%s'.format([self]) != '')", TEXTS),
        ("self.all(a, self.exists(b, b.matches('(a|b|ab)*c')) || true)", TEXTS),
        ("self.all(a, self[0].matches(a + '|x{1000}') || true)", TEXTS),
        ("self.all(a, sets.equivalent(self, self))", NUMBERS),
        ("self.all(a, self.distinct().size() > 0)", NUMBERS),
        (
            "self.all(a, quantity(a).isInteger() || true) && self.all(a, self.all(b, quantity(b).isInteger() || true))",
            TEXTS,
        ),
        ("self.all(a, self.sort() == self)", NUMBERS),
        (
            "self.all(a, ip('1.2.3.4').family() == a || isIP(string(a)) || true) && self.all(a, self.all(b, isCIDR(string(b)) || true))",
            NUMBERS,
        ),
    ],
)
def test_hostile_expressions_are_cut_off(source: str, value: Any) -> None:
    try:
        program = ENVIRONMENT.compile(source)
    except CompileError:
        return  # nested too deep: also good
    started = time.process_time()
    with pytest.raises(OutOfBudget) as caught:
        program.evaluate((value,), CostBudget())
    assert time.process_time() - started < 15  # on an idle machine, a quarter of a second at most
    assert str(caught.value) == "operation cancelled: actual cost limit exceeded"


@pytest.mark.parametrize("step", ["x + x", "[x, x].join()", "x.replace('', x)", "[x, x]"])
def test_doubling_values_ends_before_memory_does(step: str) -> None:
    program = ENVIRONMENT.compile("self" + f".map(x, {step})" * 40 + " == []")
    tracemalloc.start()
    with pytest.raises(OutOfBudget):
        program.evaluate((["ab" * 1_000],), CostBudget())
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak_bytes < 64 << 20


def test_ordinary_rules_cost_little() -> None:
    budget = CostBudget()
    program = ENVIRONMENT.compile("self.all(x, x >= 0) && self.size() < 10000")
    assert program.evaluate((NUMBERS,), budget) is True
    assert CALL_MOST - budget.left < 50_000


def test_running_out_is_not_absorbed() -> None:
    program = ENVIRONMENT.compile("self.all(a, self.all(b, self.all(c, true))) || true")
    with pytest.raises(OutOfBudget):
        program.evaluate((NUMBERS,), CostBudget())


def test_values_nested_too_deep_to_compare_are_an_end_not_a_crash() -> None:
    one: Any = []
    other: Any = []
    for _ in range(5_000):
        one, other = [one], [other]
    program = CelEnvironment({"a": DYN, "b": DYN}).compile("a == b")
    with pytest.raises((OutOfBudget, CelError)):
        program.evaluate((one, other), CostBudget())

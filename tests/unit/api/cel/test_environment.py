"""What expressions evaluate to: the language itself, over dynamic values."""

from typing import Any

import pytest

from alcove.api.cel.budget import CostBudget
from alcove.api.cel.environment import CelEnvironment
from alcove.api.cel.errors import CelError
from alcove.api.cel.times import Duration
from alcove.api.cel.types import DYN, INT
from alcove.api.cel.values import Optional, Uint

ENVIRONMENT = CelEnvironment({"self": DYN})
SELF = {
    "x": 1,
    "name": "web",
    "items": [3, 1, 2],
    "labels": {"a": "b"},
    "nothing": None,
    "deep": {"y": {"z": True}},
}


def evaluate(source: str, value: Any = SELF) -> Any:
    return ENVIRONMENT.compile(source).evaluate((value,), CostBudget())


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("1 + 2 * 3", 7),
        ("(1 + 2) * 3", 9),
        ("-7 / 2", -3),
        ("-7 % 3", -1),
        ("7 % -3", 1),
        ("--3", 3),
        ("!!true", True),
        ("-9223372036854775808", -(2**63)),
        ("0xff", 255),
        ("2.5e3", 2500.0),
        (".5 + 1.0", 1.5),
        ("1.0 / 0.0", float("inf")),
        ("'a' + \"b\"", "ab"),
        (r"r'\d' + '\x41é\n'", "\\dAé\n"),
        ("b'\\xff' + b'a'", b"\xffa"),
        ('"""two\nlines"""', "two\nlines"),
        ("[1] + [2]", [1, 2]),
        ("{'a': 1}.a", 1),
        ("{'a': 1}['a']", 1),
        ("[1, 2, 3][1]", 2),
        ("1 < 2 && 2.5 > 2 && 3u >= 3", True),
        ("dyn(1) == 1.0 && dyn(1u) == 1 && dyn(1) != 'a'", True),
        ("dyn(true) == 1", False),
        ("'b' in ['a', 'b'] && 'a' in {'a': 1} && !(3 in [1, 2])", True),
        ("true ? 'yes' : 'no'", "yes"),
        ("false || true && !false", True),
        ("type(1) == int && type('') == string && type([]) == list", True),
        ("type(timestamp('2020-01-01T00:00:00Z')) == google.protobuf.Timestamp", True),
        ("size('é') == 1 && 'abc'.size() == 3 && size({}) == 0", True),
        ("int('12') + int(3.9) + int(-3.9)", 12),
        ("string(1) + string(true) + string(2.0) + string(1e30)", "1true21e+30"),
        ("double('1.5') + double(2)", 3.5),
        ("bytes('é')", "é".encode()),
        ("string(b'ab')", "ab"),
        ("bool('true')", True),
    ],
)
def test_operators_and_conversions(source: str, expected: object) -> None:
    got = evaluate(source)
    assert got == expected
    assert type(got) is type(expected)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("self.x", 1),
        ("self['name']", "web"),
        ("has(self.x) && !has(self.y) && has(self.nothing)", True),
        ("self.?y.orValue(5)", 5),
        ("self.?deep.?y.z.orValue(false)", True),
        ("self[?'name'].value()", "web"),
        ("self.items[?9].hasValue()", False),
        ("optional.of(1).or(optional.of(2)).value()", 1),
        ("optional.none().orValue('x')", "x"),
        ("optional.ofNonZeroValue(0).hasValue()", False),
        ("[?self.?x, ?self.?y]", [1]),
        ("{?'x': self.?x, ?'y': self.?y}", {"x": 1}),
        ("self.?x.optMap(v, v + 1).value()", 2),
        ("self.?x.optFlatMap(v, optional.none()).hasValue()", False),
        ("self.items.all(i, i > 0)", True),
        ("self.items.exists(i, i > 2)", True),
        ("self.items.exists_one(i, i > 2) && self.items.existsOne(i, i > 2)", True),
        ("self.items.map(i, i * 2)", [6, 2, 4]),
        ("self.items.map(i, i > 1, i * 2)", [6, 4]),
        ("self.items.filter(i, i != 1)", [3, 2]),
        ("self.labels.all(k, k == 'a')", True),
        ("self.labels.all(k, v, k == 'a' && v == 'b')", True),
        ("self.items.exists(i, v, i == 0 && v == 3)", True),
        ("self.items.transformList(i, v, i * v)", [0, 1, 4]),
        ("self.items.transformList(i, v, i > 0, v)", [1, 2]),
        ("self.labels.transformMap(k, v, k + v)", {"a": "ab"}),
        ("self.labels.transformMapEntry(k, v, {v: k})", {"b": "a"}),
        ("self.items.sortBy(i, -i)", [3, 2, 1]),
        ("[[1, 2], [3]].all(row, row.all(cell, cell > 0))", True),
        ("[1, 2].map(x, [10, 20].map(y, x * y))", [[10, 20], [20, 40]]),
        ("[1].map(x, [2].map(x, x)[0] + x)", [3]),
    ],
)
def test_fields_optionals_and_comprehensions(source: str, expected: object) -> None:
    assert evaluate(source) == expected


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("self.y", "no such key: y"),
        ("self['y']", "no such key: y"),
        ("[1][1]", "index out of bounds: 1"),
        ("1 / 0", "division by zero"),
        ("1 % 0", "modulus by zero"),
        ("9223372036854775807 + self.x", "integer overflow"),
        ("0u - 1u", "unsigned integer overflow"),
        ("-(-9223372036854775807 - 1)", "integer overflow"),
        ("int(1e19)", "integer overflow"),
        ("self.x + 'a'", "no such overload"),
        ("self.x.matches('a')", "no such overload"),
        ("self.name.all(c, true)", "no such overload"),
        ("optional.none().value()", "optional.none() dereference"),
        ("{'a': 1, self.name.substring(0, 0) + 'a': 2}", "Failed with repeated key: a"),
        ("int('x')", "type conversion error from 'string' to 'int'"),
        ("timestamp(self.name)", "type conversion error from 'string' to 'google.protobuf.Timestamp'"),
        ("self.name.find(self.name + '(')", "Illegal regex: error parsing regexp: missing closing ): `web(`"),
    ],
)
def test_evaluation_errors_have_cel_gos_words(source: str, message: str) -> None:
    with pytest.raises(CelError) as caught:
        evaluate(source)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("self.y == 1 || true", True),
        ("true || self.y == 1", True),
        ("self.y == 1 && false", False),
        ("self.items.exists(i, i / (i - 1) > 0)", True),
        ("self.items.all(i, 1 / (i - 3) > 5)", False),
        ("false ? self.y == 1 : true", True),
    ],
)
def test_one_deciding_operand_absorbs_errors_of_the_others(source: str, expected: bool) -> None:
    assert evaluate(source) is expected


def test_an_error_that_nothing_decides_is_told() -> None:
    with pytest.raises(CelError, match="no such key: y"):
        evaluate("self.y == 1 || false")
    with pytest.raises(CelError, match="division by zero"):
        evaluate("[0, 1].all(i, 1 / i > 0)")


def test_variables_are_given_in_the_order_of_their_declaration() -> None:
    program = CelEnvironment({"b": INT, "a": INT}).compile("a * 10 + b")
    assert program.evaluate((1, 2), CostBudget()) == 21


def test_a_program_tells_which_variables_it_reads() -> None:
    environment = CelEnvironment({"self": DYN, "oldSelf": DYN})
    assert environment.compile("self.all(oldSelf, oldSelf > 1)").uses == {"self"}
    assert environment.compile("[1].all(x, oldSelf.y == x)").uses == {"oldSelf"}


def test_values_of_special_types() -> None:
    assert type(evaluate("1u + 2u")) is Uint
    assert evaluate("duration('1h') + duration('30m')") == Duration(5400 * 10**9)
    assert evaluate("optional.of(1)") == Optional(1)


def test_literals_are_not_shared_between_evaluations() -> None:
    program = ENVIRONMENT.compile("[1, 2].map(x, x) + [3]")
    assert program.evaluate((None,), CostBudget()) == program.evaluate((None,), CostBudget()) == [1, 2, 3]

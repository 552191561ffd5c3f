"""Quantities: the forms Kubernetes keeps, and the laws of numbers."""

from fractions import Fraction

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from alcove.api import quantity
from alcove.api.quantity import Quantity, QuantityError, QuantityFormat, parse

SUFFIXES = ["", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]
SCALES = {
    **{suffix: Fraction(10) ** (3 * power) for suffix, power in zip("num", (-3, -2, -1), strict=True)},
    "": Fraction(1),
    **{suffix: Fraction(10) ** (3 * power) for power, suffix in enumerate("kMGTPE", 1)},
    **{f"{suffix}i": Fraction(2) ** (10 * power) for power, suffix in enumerate("KMGTPE", 1)},
}


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("0", "0"),
        ("00", "0"),
        ("0Ki", "0"),
        ("-0", "0"),
        ("1", "1"),
        ("1000m", "1"),
        ("1500m", "1500m"),
        ("0.5", "500m"),
        (".5", "500m"),
        ("5.", "5."),
        ("1.500", "1.500"),
        ("+5", "+5"),
        ("0100m", "0100m"),
        ("1024Ki", "1Mi"),
        ("1000Ki", "1000Ki"),
        ("1.5Gi", "1536Mi"),
        ("0.5Ki", "512"),
        ("0.5m", "500u"),
        ("1024", "1024"),
        ("1000", "1k"),
        ("1e3", "1e3"),
        ("12E6", "12E6"),
        ("1500e3", "1500e3"),
        ("1000e3", "1e6"),
        ("1e-10", "1e-9"),
        ("0.1n", "1n"),
        ("-0.1n", "-1n"),
        ("1.0001Ki", "1024102400u"),
        ("9Ei", "9223372036854775807"),
        ("123456789012345678901", "123456789012345678901"),
        ("1000E", "1000E"),
        ("2048E", "2048E"),
    ],
)
def test_canonical_form(text: str, canonical: str) -> None:
    assert quantity.canonical(text) == canonical


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", quantity.FORMAT_ERROR),
        ("abc", quantity.FORMAT_ERROR),
        ("1.2.3", quantity.FORMAT_ERROR),
        ("1 1", quantity.FORMAT_ERROR),
        ("--1", quantity.SUFFIX_ERROR),
        ("Ki", quantity.FORMAT_ERROR),
        ("-", quantity.FORMAT_ERROR),
        (".", quantity.FORMAT_ERROR),
        ("1K", quantity.SUFFIX_ERROR),
        ("1i", quantity.SUFFIX_ERROR),
        ("1e", quantity.SUFFIX_ERROR),
        ("1mi", quantity.SUFFIX_ERROR),
        ("1e65", quantity.SUFFIX_ERROR),
        ("1e99999999999999999999", quantity.SUFFIX_ERROR),
        ("9" * 65, quantity.NUMBER_ERROR),
    ],
)
def test_what_is_no_quantity(text: str, message: str) -> None:
    with pytest.raises(QuantityError) as raised:
        parse(text)
    assert str(raised.value) == message


def test_hostile_texts_cost_little() -> None:
    for text in ("9" * 3_000_000, "1e" + "9" * 3_000_000, "0." + "0" * 3_000_000 + "1"):
        with pytest.raises(QuantityError):
            parse(text)
    assert str(parse("1e-999999999")) == "1e-9"


@pytest.mark.parametrize(
    ("value", "milli", "whole"),
    [("250m", 250, 1), ("1", 1000, 1), ("1n", 1, 1), ("-1n", -1, -1), ("1Ki", 1024000, 1024), ("0", 0, 0)],
)
def test_counts_round_away_from_zero(value: str, milli: int, whole: int) -> None:
    assert quantity.milli(value) == milli
    assert quantity.whole(value) == whole


@pytest.mark.parametrize(
    ("value", "canonical"),
    [(2, "2"), (0.5, "500m"), (1000.0, "1k"), (1e-07, "100n"), (" 1 ", "1"), (1e20, "100E")],
)
def test_numbers_of_json(value: str | int | float, canonical: str) -> None:
    assert quantity.canonical(value) == canonical


def test_a_sum_is_shown_as_its_left_side_was() -> None:
    assert str(parse("1Gi") + parse("1Mi")) == "1025Mi"
    assert str(parse("0") + parse("1Ki")) == "1Ki"
    assert str(parse("500m") + parse("500m")) == "1"
    assert str(parse("1") - parse("250m")) == "750m"
    assert str(-parse("1Ki")) == "-1Ki"


def test_rounding_up() -> None:
    assert str(parse("1n").rounded_up(quantity.MILLI)) == "1m"
    assert str(parse("-1500u").rounded_up(quantity.MILLI)) == "-2m"
    assert str(parse("1.500").rounded_up(quantity.MILLI)) == "1.500"


numbers = st.integers(0, 10**15)
fractions = st.text("0123456789", max_size=9)
texts = st.builds(
    lambda sign, number, fraction, suffix: f"{sign}{number}{'.' if fraction else ''}{fraction}{suffix}",
    st.sampled_from(["", "+", "-"]),
    numbers,
    fractions,
    st.sampled_from(SUFFIXES),
)
amounts = st.builds(Quantity, st.integers(-(10**30), 10**30), st.sampled_from(QuantityFormat))


def exact(text: str) -> Fraction:
    suffix = next(suffix for suffix in sorted(SUFFIXES, key=len, reverse=True) if text.endswith(suffix))
    return Fraction(text.removesuffix(suffix).removeprefix("+")) * SCALES[suffix]


@given(texts)
def test_parsing_is_exact_but_for_nanos_rounded_up(text: str) -> None:
    read, true = Fraction(parse(text).nano, 10**9), exact(text)
    assume(abs(true) <= 2**62)
    assert abs(read) >= abs(true)
    assert abs(read - true) < Fraction(1, 10**9)


@given(texts)
def test_the_canonical_form_is_stable_and_means_the_same(text: str) -> None:
    shown = quantity.canonical(text)
    assert parse(shown) == parse(text)
    assert quantity.canonical(shown) == shown


@given(amounts)
def test_what_is_shown_reads_back(amount: Quantity) -> None:
    assume(abs(amount.nano) < 2**63 * 10**9)
    assert parse(str(amount)) == amount


@given(amounts, amounts, amounts)
def test_adding_and_comparing_obey_the_laws_of_numbers(a: Quantity, b: Quantity, c: Quantity) -> None:
    assert a + b == b + a
    assert (a + b) + c == a + (b + c)
    assert (a + b) - b == a
    assert (a < b) == (b > a) == (a.nano < b.nano)
    assert (a <= b) == (b >= a) == (not a > b)
    assert (a == b) == (hash(a) == hash(b) and a.nano == b.nano)
    if a <= b:
        assert a + c <= b + c


@given(amounts)
def test_milli_and_value_bound_the_amount(amount: Quantity) -> None:
    assert abs(amount.milli) * quantity.MILLI >= abs(amount.nano) > (abs(amount.milli) - 1) * quantity.MILLI
    assert abs(amount.value) * quantity.ONE >= abs(amount.nano)
    assert amount.is_whole == (amount.value * quantity.ONE == amount.nano)

"""The order of strategically merged lists."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alcove.api.errors import BadRequest
from alcove.api.patch import elementorder

orders = st.lists(st.sampled_from("abcdef"), unique=True)


@given(orders, orders)
def test_both_orders_hold(patch: list[str], server: list[str]) -> None:
    merged = [*server, *(name for name in patch if name not in server)]
    arranged = elementorder.arrange(merged, patch, server, "")
    assert sorted(arranged) == sorted(merged)
    assert [name for name in arranged if name in patch] == patch
    others = [name for name in server if name not in patch]
    assert [name for name in arranged if name not in patch] == others


@given(orders)
def test_an_order_that_holds_moves_nothing(server: list[str]) -> None:
    assert elementorder.arrange(server, server, server, "") == server
    assert elementorder.arrange(server, [], server, "") == server


@given(orders, orders)
def test_a_patch_must_be_a_part_of_its_order(given_names: list[str], order: list[str]) -> None:
    given_items = [{"name": name} for name in given_names]
    order_items = [{"name": name} for name in order]
    is_part = [name for name in order if name in given_names] == given_names
    if is_part or not order:
        elementorder.check(given_items, order_items, "name")
    else:
        with pytest.raises(BadRequest, match=r"doesn't match \$setElementOrder list"):
            elementorder.check(given_items, order_items, "name")


def test_true_is_not_one() -> None:
    values: list[Any] = [1, True, 0, False]
    assert elementorder.arrange(values, [True, 1], values, "") == [True, 1, 0, False]
    assert repr(elementorder.arrange(values, [True], [1], "")) == "[True, 1, 0, False]"


def test_long_values_are_cut_in_messages() -> None:
    assert len(elementorder.shown(["x" * 1000])) < 250

"""The implementations that the store's contract suite runs against."""

import itertools
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import pytest

from alcove.store.base import Store
from alcove.store.sqlite import SqliteStore

Open = Callable[[], Awaitable[Store]]
"""Opens the store that is kept in one place; again after closing, it has what was written."""


def sqlite_places(folder: Path) -> Callable[[], Open]:
    numbers = itertools.count()
    return lambda: partial(SqliteStore.open, folder / f"{next(numbers)}.db")


IMPLEMENTATIONS = {"sqlite": sqlite_places}


@pytest.fixture(params=IMPLEMENTATIONS)
def new_place(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Open]:
    """Makes empty places for stores of each implementation."""
    return IMPLEMENTATIONS[request.param](tmp_path)


@pytest.fixture
def open_store(new_place: Callable[[], Open]) -> Open:
    """Opens, and opens again, one store."""
    return new_place()

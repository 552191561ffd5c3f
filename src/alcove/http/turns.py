"""Shares the time of an event loop between groups of connections: so much in each iteration, and in turns.

Data that is received takes time before it is a request: TLS records of one byte, chunks of one byte. A client may
send it on hundreds of connections at once, all of which can be read in one iteration of the loop.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from time import perf_counter
from typing import Generic, Protocol, TypeVar

T = TypeVar("T")

READING_SECONDS = 0.001
"""For received data in one iteration of the loop; a group that had its part continues in a later one."""
READING_SHARE = 0.5
"""The part of the time that reading may take for long without waiting."""


class Turns(Generic[T]):
    """Work that continues in later iterations of the loop, for a limited time in each; it goes round between
    groups, and within each between its members."""

    def __init__(self, seconds: float, work: Callable[[T], None]) -> None:
        self._seconds = seconds
        self._work = work
        self._waiting: OrderedDict[str, OrderedDict[T, None]] = OrderedDict()
        """The next group first."""
        self._is_scheduled = False

    def has(self, group: str) -> bool:
        """Whether members of the group wait."""
        return group in self._waiting

    def add(self, group: str, member: T) -> None:
        """Calls `work` with the member when it is its turn."""
        self._waiting.setdefault(group, OrderedDict())[member] = None
        self._schedule()

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._run)

    def _run(self) -> None:
        self._is_scheduled = False
        until = perf_counter() + self._seconds
        while self._waiting:
            group, members = self._waiting.popitem(last=False)
            member, _ = members.popitem(last=False)
            if members:
                self._waiting[group] = members
            self._work(member)
            if perf_counter() >= until:
                break
        if self._waiting:
            self._schedule()


class DataReader(Protocol):
    """A connection that has received data."""

    def read_now(self) -> None: ...

    def read_later(self) -> None:
        """Receive nothing more until `read_now` is called."""
        ...


class ReadingTurns:
    """Lets connections read what they have received, and charges the time to their groups: the tenant who sends it, or
    whose webhooks, aggregated API or pods do; the network of a client that is not authenticated yet."""

    def __init__(self, charge: Callable[[str, float], None] = lambda _group, _seconds: None) -> None:
        """`charge` is called with a group and seconds, if reading takes a large part of the time."""
        self._charge = charge
        self._turns: Turns[tuple[str, DataReader]] = Turns(READING_SECONDS, self._take_turn)
        self.handled_seconds = 0.0
        """Time that is counted already, or elsewhere: handling requests."""
        self._level = 0.0
        """The time that was spent beyond READING_SHARE."""
        self._measured_at = 0.0
        self._groups: dict[str, float] = {}
        """The seconds of each group since the level was 0."""
        self._is_over = False

    def read(self, group: str, reader: DataReader) -> None:
        """Lets the connection read now, or later if its group had its part of this iteration, or others of its
        group wait: a group has turns, or is read at once, but not both in one iteration."""
        if self._turns.has(group) or (self._is_over and group in self._groups):
            reader.read_later()
            self._turns.add(group, (group, reader))
        else:
            self._measure(group, reader)

    def _take_turn(self, waiting: tuple[str, DataReader]) -> None:
        self._measure(*waiting)

    def _measure(self, group: str, reader: DataReader) -> None:
        began, handled = perf_counter(), self.handled_seconds
        reader.read_now()
        now = perf_counter()
        seconds = now - began - (self.handled_seconds - handled)
        # A connection may carry another one, which is measured within this one.
        self.handled_seconds += seconds
        self._level -= (now - self._measured_at) * READING_SHARE
        self._measured_at = now
        if self._level <= 0.0:
            self._level = 0.0
            self._groups.clear()
        self._level += seconds
        self._groups[group] = self._groups.get(group, 0.0) + seconds
        if self._level > READING_SECONDS and not self._is_over:
            self._is_over = True
            asyncio.get_running_loop().call_soon(self._begin_iteration)

    def _begin_iteration(self) -> None:
        self._is_over = False
        self._level = 0.0
        groups, self._groups = self._groups, {}
        for group, seconds in groups.items():
            self._charge(group, seconds)

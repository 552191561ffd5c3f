"""What a run of Kubernetes' end-to-end tests reported, compared with a list of the tests that pass, and where.

The list is a text file with a line for each test: the places where it passes, separated by commas, and its name.
`none` stands for no place. `tests/conformance/run.py` runs the tests; this module reads and compares, without I/O.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import groupby

import msgspec
from msgspec import Struct, field

NOWHERE = "none"
_GROUP = re.compile(r"\[sig-([a-z-]+)\]")
_LINE = re.compile(r"(?P<places>[a-z0-9,]+)\s+(?P<name>\S.*)")


class Place(StrEnum):
    """Where the tests run: each has rights that the one before lacks."""

    TENANT = "tenant"
    TRUSTED = "trusted"
    RING0 = "ring0"


class ListError(ValueError):
    """A line of the list cannot be read."""


class SpecOutcome(Struct, frozen=True):
    """What became of one test."""

    name: str
    passed: bool
    seconds: float
    message: str = ""

    @property
    def group(self) -> str:
        return group_of(self.name)


class Comparison(Struct, frozen=True):
    """How the outcomes differ from the list; every field holds names of tests."""

    regressed: Sequence[str]
    """Listed as passing at this place, and failed."""
    missing: Sequence[str]
    """Listed as passing at this place, and not run although they were to be."""
    gained: Sequence[str]
    """Passed, and not listed as passing at this place."""


Listed = Mapping[str, frozenset[Place]]
"""The places where each test passes, by its name."""


class _Failure(Struct):
    message: str = field(name="Message", default="")


class _Spec(Struct):
    containers: list[str] | None = field(name="ContainerHierarchyTexts", default=None)
    text: str = field(name="LeafNodeText", default="")
    kind: str = field(name="LeafNodeType", default="")
    state: str = field(name="State", default="")
    nanoseconds: int = field(name="RunTime", default=0)
    failure: _Failure = field(name="Failure", default_factory=_Failure)


class _Suite(Struct):
    specs: list[_Spec] | None = field(name="SpecReports", default=None)


def outcomes(report: bytes) -> list[SpecOutcome]:
    """The tests that ran, of a report that ginkgo wrote as JSON. Skipped ones are left out."""
    found = []
    for suite in msgspec.json.decode(report, type=list[_Suite]):
        for spec in suite.specs or ():
            if spec.kind == "It" and spec.state not in ("skipped", "pending"):
                name = " ".join((*(spec.containers or ()), spec.text))
                passed = spec.state == "passed"
                found.append(SpecOutcome(name, passed, spec.nanoseconds / 1e9, spec.failure.message))
    return found


def group_of(name: str) -> str:
    """The special interest group that a test's name begins with."""
    match = _GROUP.match(name)
    return match[1] if match else "other"


def read_list(text: str) -> Listed:
    listed: dict[str, frozenset[Place]] = {}
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        match = _LINE.fullmatch(line.rstrip())
        if match is None:
            raise ListError(f"not a list of places and a name: {line!r}")
        if match["name"] in listed:
            raise ListError(f"listed twice: {match['name']}")
        try:
            places = [] if match["places"] == NOWHERE else match["places"].split(",")
            listed[match["name"]] = frozenset(Place(each) for each in places)
        except ValueError as error:
            raise ListError(f"{error}: {line!r}") from error
    return listed


def write_list(listed: Listed, header: str) -> str:
    """The text of a list: the header as comments, then the tests by name."""
    lines = [f"# {line}".rstrip() for line in header.splitlines()]
    for name, places in sorted(listed.items()):
        words = ",".join(place for place in Place if place in places) or NOWHERE
        lines.append(f"{words:<21} {name}")
    return "\n".join(lines) + "\n"


def passing(listed: Listed, place: Place) -> list[str]:
    return [name for name, places in listed.items() if place in places]


def compare(listed: Listed, ran: Sequence[SpecOutcome], place: Place, expected: Iterable[str]) -> Comparison:
    """`expected` names the tests that were to be run: all of the list, or those that a pattern matches."""
    known = frozenset(passing(listed, place))
    seen = {each.name for each in ran}
    return Comparison(
        regressed=sorted(each.name for each in ran if not each.passed and each.name in known),
        missing=sorted(known.intersection(expected) - seen),
        gained=sorted(each.name for each in ran if each.passed and each.name not in known),
    )


def updated(listed: Listed, ran: Iterable[SpecOutcome], place: Place) -> Listed:
    """The list with what a run showed at a place. What did not run stays as it was."""
    result = dict(listed)
    for each in ran:
        before = result.get(each.name, frozenset())
        result[each.name] = before | {place} if each.passed else before - {place}
    return result


def groups(listed: Listed) -> Iterator[tuple[str, Listed]]:
    """The tests of each group, the largest group first."""
    ordered = sorted(listed, key=group_of)
    parts = [(group, list(names)) for group, names in groupby(ordered, key=group_of)]
    for group, names in sorted(parts, key=lambda part: -len(part[1])):
        yield group, {name: listed[name] for name in names}


def table(ran: Iterable[SpecOutcome]) -> Iterator[str]:
    """Lines of text: passed and failed tests of each group, and of all."""
    ordered = sorted(ran, key=lambda each: each.group)
    yield f"{'group':<20} {'passed':>7} {'failed':>7} {'seconds':>9}"
    for group, members in groupby(ordered, key=lambda each: each.group):
        yield _row(group, list(members))
    yield _row("all", ordered)


def slowest(ran: Iterable[SpecOutcome], count: int) -> Iterator[str]:
    """Lines of text: the tests that took longest, the longest first."""
    for each in sorted(ran, key=lambda each: -each.seconds)[:count]:
        yield f"{each.seconds:>7.0f} s  {each.name}"


def _row(title: str, members: Sequence[SpecOutcome]) -> str:
    passed = sum(each.passed for each in members)
    seconds = sum(each.seconds for each in members)
    return f"{title:<20} {passed:>7} {len(members) - passed:>7} {seconds:>9.0f}"

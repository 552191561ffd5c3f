"""Semantic versions (semver.org, version 2)."""

from __future__ import annotations

import re
from functools import total_ordering

from alcove.api.cel.budget import parse_cost
from alcove.api.cel.declarations import Library
from alcove.api.cel.errors import CelError
from alcove.api.cel.types import BOOL, INT, STRING, opaque
from alcove.api.cel.values import Opaque

SEMVER = Library()
SEMVER_TYPE = opaque("kubernetes.Semver")
_function, _member = SEMVER.function, SEMVER.member

_VERSION = re.compile(
    r"(0|[1-9][0-9]{0,18})\.(0|[1-9][0-9]{0,18})\.(0|[1-9][0-9]{0,18})"
    r"(?:-([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?(?:\+([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?"
)


@total_ordering
class SemverValue(Opaque):
    """A version. Build metadata is ignored in comparisons."""

    __slots__ = ("numbers", "pre")
    cel_type = SEMVER_TYPE

    def __init__(self, numbers: tuple[int, int, int], pre: tuple[str, ...]) -> None:
        self.numbers = numbers
        self.pre = pre

    def _order(self) -> tuple[tuple[int, int, int], bool, list[tuple[bool, int, str]]]:
        # A release is above its pre-releases; numeric identifiers are below alphanumeric ones.
        parts = [(not part.isdigit(), int(part) if part.isdigit() else 0, part) for part in self.pre]
        return self.numbers, not self.pre, parts

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SemverValue) and self._order() == other._order()

    def __lt__(self, other: SemverValue) -> bool:
        return self._order() < other._order()

    def __hash__(self) -> int:
        return hash((self.numbers, self.pre))


def _parse(text: str) -> SemverValue:
    match = _VERSION.fullmatch(text)
    if match is None:
        raise CelError(_error(text))
    pre = tuple(match[4].split(".")) if match[4] else ()
    if any(part.isdigit() and (len(part) > 1 and part[0] == "0") for part in pre):
        raise CelError("Numeric PreRelease version must not contain leading zeroes")
    if any(part.isdigit() and len(part) > 19 for part in pre):
        raise CelError("PreRelease version out of range")
    return SemverValue((int(match[1]), int(match[2]), int(match[3])), pre)


def _error(text: str) -> str:
    if not text:
        return "Version string empty"
    if text.count(".") < 2:
        return "No Major.Minor.Patch elements found"
    return f"Invalid character(s) found in version {text!r}"


def _normalized(text: str) -> str:
    parts = text.removeprefix("v").split(".", 2)
    for index, part in enumerate(parts):
        if len(part) > 1:
            stripped = part.lstrip("0")
            parts[index] = stripped if stripped[:1].isdigit() else "0" + stripped
    if len(parts) < 3:
        if any(mark in parts[-1] for mark in "+-"):
            raise CelError("short version cannot contain PreRelease/Build meta data")
        parts += ["0"] * (3 - len(parts))
    return ".".join(parts)


@_function("semver", (STRING,), SEMVER_TYPE, cost=parse_cost)
@_function("semver", (STRING, BOOL), SEMVER_TYPE, cost=parse_cost)
def _semver(text: str, normalize: bool = False) -> SemverValue:
    return _parse(_normalized(text) if normalize else text)


@_function("isSemver", (STRING,), BOOL, cost=parse_cost)
@_function("isSemver", (STRING, BOOL), BOOL, cost=parse_cost)
def _is_semver(text: str, normalize: bool = False) -> bool:
    try:
        _semver(text, normalize)
    except CelError:
        return False
    return True


_member("major", (SEMVER_TYPE,), INT)(lambda version: version.numbers[0])
_member("minor", (SEMVER_TYPE,), INT)(lambda version: version.numbers[1])
_member("patch", (SEMVER_TYPE,), INT)(lambda version: version.numbers[2])
_member("isGreaterThan", (SEMVER_TYPE, SEMVER_TYPE), BOOL)(lambda one, other: one > other)
_member("isLessThan", (SEMVER_TYPE, SEMVER_TYPE), BOOL)(lambda one, other: one < other)
_member("compareTo", (SEMVER_TYPE, SEMVER_TYPE), INT)(lambda one, other: (one > other) - (one < other))

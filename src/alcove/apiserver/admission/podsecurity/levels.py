"""Levels, versions, and the policy of a namespace's labels. Pure: no I/O."""

import re
from collections.abc import Mapping
from enum import IntEnum

from msgspec import Struct

from alcove.api.fields import FieldError, invalid

PREFIX = "pod-security.kubernetes.io/"
ENFORCE = f"{PREFIX}enforce"
LATEST = 10**9
"""A minor version that is newer than any other."""

_VERSION = re.compile(r"v1\.(0|[1-9][0-9]{0,8})")
_INVALID_VERSION = 'must be "latest" or "v1.x"'
_INVALID_LEVEL = "must be one of privileged, baseline, restricted"


class Level(IntEnum):
    """In order of strictness."""

    PRIVILEGED = 0
    BASELINE = 1
    RESTRICTED = 2


_LEVELS = {level.name.lower(): level for level in Level}


class Standard(Struct, frozen=True):
    """A level at a (minor) version."""

    level: Level = Level.PRIVILEGED
    minor: int = LATEST

    def __str__(self) -> str:
        version = "latest" if self.minor == LATEST else f"v1.{self.minor}"
        return f"{self.level.name.lower()}:{version}"


class PodSecurityPolicy(Struct, frozen=True):
    enforce: Standard = Standard()
    audit: Standard = Standard()
    warn: Standard = Standard()


NO_POLICY = PodSecurityPolicy()


def parse_level(text: str) -> Level | None:
    return _LEVELS.get(text)


def parse_version(text: str) -> int | None:
    if text == "latest":
        return LATEST
    match = _VERSION.fullmatch(text)
    return int(match[1]) if match else None


def policy(labels: Mapping[str, str]) -> tuple[PodSecurityPolicy, list[FieldError]]:
    """The policy of a namespace's labels, and errors for invalid labels. An invalid `enforce` label means
    `restricted`, an invalid `audit` or `warn` label means `privileged`."""
    if not any(key.startswith(PREFIX) for key in labels):
        return NO_POLICY, []
    errors: list[FieldError] = []
    enforce = _standard(labels, "enforce", Level.RESTRICTED, errors)
    audit = _standard(labels, "audit", Level.PRIVILEGED, errors)
    warn = _standard(labels, "warn", Level.PRIVILEGED, errors)
    is_chosen = parse_level(labels.get(ENFORCE, "")) is not None
    if is_chosen and f"{PREFIX}warn" not in labels and enforce.level > warn.level:
        # Warn about templates whose pods would be rejected.
        minor = warn.minor if f"{PREFIX}warn-version" in labels else enforce.minor
        warn = Standard(enforce.level, minor)
    return PodSecurityPolicy(enforce, audit, warn), errors


def _standard(
    labels: Mapping[str, str], mode: str, when_invalid: Level, errors: list[FieldError]
) -> Standard:
    level, minor = Level.PRIVILEGED, LATEST
    key = f"{PREFIX}{mode}"
    if key in labels:
        chosen = parse_level(labels[key])
        if chosen is None:
            errors.append(invalid(f"metadata.labels[{key}]", labels[key], _INVALID_LEVEL))
        level = when_invalid if chosen is None else chosen
    key = f"{PREFIX}{mode}-version"
    if key in labels:
        version = parse_version(labels[key])
        if version is None:
            errors.append(invalid(f"metadata.labels[{key}]", labels[key], _INVALID_VERSION))
        minor = LATEST if version is None else version
    return Standard(level, minor)

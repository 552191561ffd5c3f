"""Levels, versions, and the policy that labels choose. Pure."""

import re
from collections.abc import Mapping
from enum import IntEnum

from msgspec import Struct

from alcove.api.fields import FieldError, invalid

PREFIX = "pod-security.kubernetes.io/"
ENFORCE = f"{PREFIX}enforce"
LATEST = 10**9
"""As a minor version: newer than any."""

_VERSION = re.compile(r"v1\.(0|[1-9][0-9]{0,8})")
_NO_VERSION = 'must be "latest" or "v1.x"'
_NO_LEVEL = "must be one of privileged, baseline, restricted"


class Level(IntEnum):
    """In order of strictness."""

    PRIVILEGED = 0
    BASELINE = 1
    RESTRICTED = 2


_LEVELS = {level.name.lower(): level for level in Level}


class Standard(Struct, frozen=True):
    """A level as it was at a (minor) version."""

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
    found = _VERSION.fullmatch(text)
    return int(found[1]) if found else None


def policy(labels: Mapping[str, str]) -> tuple[PodSecurityPolicy, list[FieldError]]:
    """What a namespace's labels choose. A wrong label is a fault, and means `restricted` where it is enforced,
    nothing where it only tells."""
    if not any(key.startswith(PREFIX) for key in labels):
        return NO_POLICY, []
    faults: list[FieldError] = []
    enforce = _standard(labels, "enforce", Level.RESTRICTED, faults)
    audit = _standard(labels, "audit", Level.PRIVILEGED, faults)
    warn = _standard(labels, "warn", Level.PRIVILEGED, faults)
    is_chosen = parse_level(labels.get(ENFORCE, "")) is not None
    if is_chosen and f"{PREFIX}warn" not in labels and enforce.level > warn.level:
        # What is going to be refused is told earlier, where the pod is only a template.
        minor = warn.minor if f"{PREFIX}warn-version" in labels else enforce.minor
        warn = Standard(enforce.level, minor)
    return PodSecurityPolicy(enforce, audit, warn), faults


def _standard(labels: Mapping[str, str], mode: str, when_wrong: Level, faults: list[FieldError]) -> Standard:
    level, minor = Level.PRIVILEGED, LATEST
    key = f"{PREFIX}{mode}"
    if key in labels:
        known = parse_level(labels[key])
        if known is None:
            faults.append(invalid(f"metadata.labels[{key}]", labels[key], _NO_LEVEL))
        level = when_wrong if known is None else known
    key = f"{PREFIX}{mode}-version"
    if key in labels:
        found = parse_version(labels[key])
        if found is None:
            faults.append(invalid(f"metadata.labels[{key}]", labels[key], _NO_VERSION))
        minor = LATEST if found is None else found
    return Standard(level, minor)

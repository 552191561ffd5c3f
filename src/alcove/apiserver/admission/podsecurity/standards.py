"""The checks of a level at a version, and their violations by a pod. Pure: no I/O."""

from collections.abc import Sequence
from functools import lru_cache

from msgspec import Struct

from alcove.apiserver.admission.podsecurity import baseline, restricted
from alcove.apiserver.admission.podsecurity.baseline import Check, Finding, PodView
from alcove.apiserver.admission.podsecurity.levels import Level, Standard

NEWEST_MINOR = 36
"""The last version that changed a check; newer versions are equivalent to it."""


class Violation(Struct, frozen=True):
    """A pod's violations of a standard; `findings` is never empty."""

    standard: Standard
    findings: tuple[Finding, ...]

    @property
    def reasons(self) -> str:
        return ", ".join(reason for reason, _ in self.findings)

    @property
    def details(self) -> str:
        return ", ".join(f"{reason} ({detail})" if detail else reason for reason, detail in self.findings)

    def __str__(self) -> str:
        return f'violate PodSecurity "{self.standard}": {self.details}'


def _at(versions: Sequence[tuple[int, Check]], minor: int) -> Check | None:
    holding = [check for since, check in versions if since <= minor]
    return holding[-1] if holding else None


@lru_cache(maxsize=256)
def _checks(level: Level, minor: int, is_bare: bool) -> tuple[Check, ...]:
    """The checks of the level; for a bare pod without those that it cannot violate."""
    if level is Level.PRIVILEGED:
        return ()
    further = {
        name: check
        for name, _, versions in restricted.CHECKS
        if level is Level.RESTRICTED and (check := _at(versions, minor)) is not None
    }
    replaced = {instead for name, instead, _ in restricted.CHECKS if name in further}
    basic = [
        check
        for name, needs_context, versions in baseline.CHECKS
        if name not in replaced
        and not (is_bare and needs_context)
        and (check := _at(versions, minor)) is not None
    ]
    return (*basic, *further.values())


def violation(standard: Standard, pod: PodView) -> Violation | None:
    if not standard.level:
        return None
    checks = _checks(standard.level, min(standard.minor, NEWEST_MINOR), pod.is_bare)
    findings = tuple(finding for check in checks if (finding := check(pod)) is not None)
    return Violation(standard, findings) if findings else None

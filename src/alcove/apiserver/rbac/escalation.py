"""Prevention of privilege escalation: which of the granted rules are not covered by those that the caller
holds.

Exact and bounded: rules are not expanded verb by verb, and a role with more combinations than `PAIRS_MAX` is
rejected, so that its check does not delay other tenants.
"""

from collections.abc import Iterable, Iterator, Sequence

from alcove.apiserver.identity import Identity
from alcove.apiserver.rbac.rules import ANY, PolicyRule, quote, quoted

PAIRS_MAX = 2048
"""(group, resource, name) combinations and paths in one role."""
REPORTED_MAX = 50


class TooManyPairs(Exception):
    def __init__(self) -> None:
        super().__init__(f"it grants more than {PAIRS_MAX} combinations; make several roles of it")


def missing(held: Sequence[PolicyRule], wanted: Iterable[PolicyRule]) -> list[PolicyRule]:
    """The permissions in `wanted` that `held` does not cover, each as a rule for one resource or path.
    Raises TooManyPairs."""
    uncovered: list[PolicyRule] = []
    pairs = 0
    for rule in wanted:
        if rule in held:
            continue
        pairs += len(rule.groups) * len(rule.resources) * max(1, len(rule.names)) + len(rule.urls)
        if pairs > PAIRS_MAX:
            raise TooManyPairs
        uncovered += _missing_resources(held, rule)
        uncovered += _missing_urls(held, rule)
    return uncovered


def _missing_resources(held: Sequence[PolicyRule], rule: PolicyRule) -> Iterator[PolicyRule]:
    for group in rule.groups:
        for resource in rule.resources:
            owners = [owner for owner in held if owner.covers_resource(group, resource)]
            for name in rule.names or ("",):
                verbs = _missing_verbs(rule.verbs, (owner for owner in owners if owner.covers_name(name)))
                if verbs:
                    yield PolicyRule(verbs, (group,), (resource,), (name,) if name else ())


def _missing_urls(held: Sequence[PolicyRule], rule: PolicyRule) -> Iterator[PolicyRule]:
    for url in rule.urls:
        verbs = _missing_verbs(rule.verbs, (owner for owner in held if owner.covers_url(url)))
        if verbs:
            yield PolicyRule(verbs, urls=(url,))


def _missing_verbs(verbs: Iterable[str], owners: Iterable[PolicyRule]) -> tuple[str, ...]:
    allowed = {verb for owner in owners for verb in owner.verbs}
    return () if ANY in allowed else tuple(verb for verb in verbs if verb not in allowed)


def refusal(identity: Identity, lacking: Iterable[PolicyRule]) -> str:
    """The error message of Kubernetes for a rejected grant; a long list is truncated."""
    messages = sorted({str(rule) for rule in lacking})
    more = [f"and {len(messages) - REPORTED_MAX} more"] if len(messages) > REPORTED_MAX else []
    return (
        f"user {quote(identity.user)} (groups={quoted(identity.groups)}) is attempting to grant"
        " RBAC permissions not currently held:\n" + "\n".join(messages[:REPORTED_MAX] + more)
    )

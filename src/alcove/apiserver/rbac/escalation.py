"""Prevention of privilege escalation: which of the granted rules are not covered by those that the caller
holds.

Exact and bounded: rules are not expanded verb by verb, and a role with more combinations than `PAIRS_MAX` is
rejected.
"""

from collections.abc import Iterable, Iterator, Set

from alcove.apiserver.identity import Identity
from alcove.apiserver.rbac.rules import ANY, PolicyRule, quote, quoted

PAIRS_MAX = 2048
"""(group, resource, name) combinations and paths in one role."""
REPORTED_MAX = 50


class TooManyPairs(Exception):
    def __init__(self) -> None:
        super().__init__(f"it grants more than {PAIRS_MAX} combinations; make several roles of it")


class HeldRules:
    """The rules that somebody holds, by what they are about."""

    def __init__(self, rules: Iterable[PolicyRule]) -> None:
        self._rules = frozenset(rules)
        self._by_resource: dict[str, list[PolicyRule]] = {}
        self._of_paths: list[PolicyRule] = []
        for rule in self._rules:
            for resource in rule.resources:
                self._by_resource.setdefault(resource, []).append(rule)
            if rule.urls:
                self._of_paths.append(rule)

    def __contains__(self, rule: PolicyRule) -> bool:
        return rule in self._rules

    def of_resource(self, group: str, resource: str) -> list[PolicyRule]:
        """The rules that cover everything that `group` and `resource` (both may be wildcards) select."""
        _, slash, subresource = resource.partition("/")
        keys = {resource, ANY, f"{ANY}/{subresource}" if slash else ANY}
        candidates = (rule for key in keys for rule in self._by_resource.get(key, ()))
        return [rule for rule in candidates if rule.covers_resource(group, resource)]

    def of_path(self, url: str) -> list[PolicyRule]:
        return [rule for rule in self._of_paths if rule.covers_url(url)]


def missing(held: Iterable[PolicyRule], wanted: Iterable[PolicyRule]) -> list[PolicyRule]:
    """The permissions in `wanted` that `held` does not cover, each as a rule for one resource or path. Takes long if
    both are many. Raises TooManyPairs."""
    held_rules = HeldRules(held)
    uncovered: list[PolicyRule] = []
    pairs = 0
    for rule in wanted:
        if rule in held_rules:
            continue
        pairs += len(rule.groups) * len(rule.resources) * max(1, len(rule.names)) + len(rule.urls)
        if pairs > PAIRS_MAX:
            raise TooManyPairs
        uncovered += _missing_resources(held_rules, rule)
        uncovered += _missing_urls(held_rules, rule)
    return uncovered


def _missing_resources(held: HeldRules, rule: PolicyRule) -> Iterator[PolicyRule]:
    names = frozenset(rule.names or ("",))
    for group in rule.groups:
        for resource in rule.resources:
            allowed: dict[str, set[str]] = {name: set() for name in names}
            for owner in held.of_resource(group, resource):
                for name in owner.covered_names(names):
                    allowed[name].update(owner.verbs)
            for name in rule.names or ("",):
                verbs = _missing_verbs(rule.verbs, allowed[name])
                if verbs:
                    yield PolicyRule(verbs, (group,), (resource,), (name,) if name else ())


def _missing_urls(held: HeldRules, rule: PolicyRule) -> Iterator[PolicyRule]:
    for url in rule.urls:
        verbs = _missing_verbs(rule.verbs, {verb for owner in held.of_path(url) for verb in owner.verbs})
        if verbs:
            yield PolicyRule(verbs, urls=(url,))


def _missing_verbs(verbs: Iterable[str], allowed: Set[str]) -> tuple[str, ...]:
    return () if ANY in allowed else tuple(verb for verb in verbs if verb not in allowed)


def refusal(identity: Identity, lacking: Iterable[PolicyRule]) -> str:
    """The error message of Kubernetes for a rejected grant; a long list is truncated."""
    messages = sorted({str(rule) for rule in lacking})
    more = [f"and {len(messages) - REPORTED_MAX} more"] if len(messages) > REPORTED_MAX else []
    return (
        f"user {quote(identity.user)} (groups={quoted(identity.groups)}) is attempting to grant"
        " RBAC permissions not currently held:\n" + "\n".join(messages[:REPORTED_MAX] + more)
    )

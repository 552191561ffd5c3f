"""Aggregated cluster roles: the rules of the roles that an `aggregationRule` selects.

An aggregated role may select another aggregated one. Kubernetes' controller needs several rounds for that;
here the selection is followed recursively, so the result is the same and always current.
"""

from collections.abc import Iterator, Mapping

from alcove.api import objects, selectors
from alcove.api.errors import BadRequest
from alcove.api.objects import Object
from alcove.apiserver.rbac.rules import PolicyRule, compile_rules

FOLLOWED_MAX = 64
"""Aggregated roles that are followed from one. Each costs a scan of all roles; further ones add no rules."""


def is_aggregated(role: Object) -> bool:
    return bool(objects.get(role, "aggregationRule", "clusterRoleSelectors"))


def aggregate(role: Object, all_roles: Mapping[str, Object]) -> tuple[PolicyRule, ...]:
    """The rules of `role`, or of the roles in `all_roles` (by name) that it aggregates, without
    duplicates."""
    if not is_aggregated(role):
        return compile_rules(role.get("rules"))
    rules: dict[PolicyRule, None] = {}
    for member in _Selection(all_roles).members(role):
        rules.update(dict.fromkeys(compile_rules(member.get("rules"))))
    return tuple(rules)


class _Selection:
    def __init__(self, all_roles: Mapping[str, Object]) -> None:
        self._roles = [all_roles[name] for name in sorted(all_roles)]
        self._seen: set[str] = set()
        self._followed = 0

    def members(self, role: Object) -> Iterator[Object]:
        """Roles that are not aggregated and that it selects, directly or through others, in Kubernetes'
        order."""
        self._seen.add(objects.name(role))
        self._followed += 1
        for selector in role["aggregationRule"]["clusterRoleSelectors"]:
            for member in self._matching(selector):
                name = objects.name(member)
                if name in self._seen:
                    continue
                self._seen.add(name)
                if not is_aggregated(member):
                    yield member
                elif self._followed < FOLLOWED_MAX:
                    yield from self.members(member)

    def _matching(self, selector: Object) -> list[Object]:
        try:
            matches = selectors.from_object(selector).matches
        except BadRequest:
            return []  # An invalid selector selects no roles.
        return [role for role in self._roles if matches(objects.labels(role))]

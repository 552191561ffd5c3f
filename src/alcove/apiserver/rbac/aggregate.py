"""Aggregated cluster roles: rules gathered from the roles that an `aggregationRule` selects.

An aggregated role may select another one. Kubernetes' controller reaches the end in several rounds;
here the selection is followed to its end at once, so the answer is the same and always current.
"""

from collections.abc import Iterator, Mapping

from alcove.api import objects, selectors
from alcove.api.errors import BadRequest
from alcove.api.objects import Object
from alcove.apiserver.rbac.rules import PolicyRule, compile_rules

FOLLOWED_MAX = 64
"""Aggregated roles followed from one. Each costs a look at all roles; past this, they add nothing."""


def is_aggregated(role: Object) -> bool:
    return bool(objects.get(role, "aggregationRule", "clusterRoleSelectors"))


def aggregate(role: Object, all_roles: Mapping[str, Object]) -> tuple[PolicyRule, ...]:
    """The rules of `role`: its own, or those that it gathers from `all_roles` (by name), each once."""
    if not is_aggregated(role):
        return compile_rules(role.get("rules"))
    gathered: dict[PolicyRule, None] = {}
    for member in _Selection(all_roles).members(role):
        gathered.update(dict.fromkeys(compile_rules(member.get("rules"))))
    return tuple(gathered)


class _Selection:
    def __init__(self, all_roles: Mapping[str, Object]) -> None:
        self._roles = [all_roles[name] for name in sorted(all_roles)]
        self._seen: set[str] = set()
        self._followed = 0

    def members(self, role: Object) -> Iterator[Object]:
        """Plain roles that it selects, directly or through others, in the order Kubernetes takes them."""
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
            return []  # A selector that cannot be read gives no rights.
        return [role for role in self._roles if matches(objects.labels(role))]

"""Aggregated cluster roles: writes the rules of the selected roles into `rules`.

The API server authorizes by evaluating the selectors itself, so it never depends on this controller; `rules`
is written for clients that read the role.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from alcove.api import objects, selectors
from alcove.api.errors import BadRequest
from alcove.api.objects import Object
from alcove.client.changes import ObjectChange
from alcove.client.keys import ObjectKey
from alcove.client.resources import CLUSTER_ROLES
from alcove.controllers.controller import DONE, Controller, ControllerContext, Result

AGGREGATED = "aggregated"


def _is_aggregated(role: Object) -> Iterable[str]:
    return ["yes"] if objects.get(role, "aggregationRule", "clusterRoleSelectors") else []


class ClusterRoleAggregation(Controller):
    name = "clusterrole-aggregation"
    resource = CLUSTER_ROLES
    workers = 4

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._roles = self.mirror(CLUSTER_ROLES, {AGGREGATED: _is_aggregated})
        self.on(self._roles, self._aggregated_roles)

    def _aggregated_roles(self, change: ObjectChange) -> Iterable[ObjectKey]:
        """All aggregated roles of the tenant: the changed role may match, or have matched, any of them."""
        return self._roles.find_keys(AGGREGATED, change.key.plane, change.key.tenant, "yes")

    async def reconcile(self, key: ObjectKey) -> Result:
        role = self._roles.get(key)
        if role is None or not list(_is_aggregated(role)):
            return DONE
        # Listed from the server: built-in roles are not stored, so a watch over all tenants omits them.
        roles = await self.client(key).list(key.tenant, CLUSTER_ROLES)
        rules = aggregate_rules(role, roles)
        if rules != (role.get("rules") or []):
            role["rules"] = rules
            await self.client(key).update(key.tenant, CLUSTER_ROLES, role)
        return DONE


def aggregate_rules(role: Object, roles: Sequence[Object]) -> list[Object]:
    """The rules of all roles that `role` selects, without duplicates, ordered by role name."""
    rules: list[Object] = []
    ordered = sorted(roles, key=objects.name)
    for selector in role["aggregationRule"]["clusterRoleSelectors"]:
        try:
            matches = selectors.from_object(selector).matches
        except BadRequest:
            continue  # An invalid selector selects nothing.
        for other in ordered:
            if objects.name(other) != objects.name(role) and matches(objects.labels(other)):
                rules += [rule for rule in other.get("rules") or () if rule not in rules]
    return rules

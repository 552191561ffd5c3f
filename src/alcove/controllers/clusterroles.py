"""Aggregated cluster roles: their `rules` show what they gather from the roles that they select.

The server decides rights by the selection itself (always current); what is written here is for people
and programs that read the role.
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
        self.on(self._roles, self._aggregating)

    def _aggregating(self, change: ObjectChange) -> Iterable[ObjectKey]:
        """Any role may be, or have been, part of the tenant's aggregated ones."""
        return self._roles.find_keys(AGGREGATED, change.key.plane, change.key.tenant, "yes")

    async def reconcile(self, key: ObjectKey) -> Result:
        role = self._roles.get(key)
        if role is None or not list(_is_aggregated(role)):
            return DONE
        # Asked of the server: built-in roles are not stored, and no watch over all tenants tells of them.
        every = await self.client(key).list(key.tenant, CLUSTER_ROLES)
        rules = gathered(role, every)
        if rules != (role.get("rules") or []):
            role["rules"] = rules
            await self.client(key).update(key.tenant, CLUSTER_ROLES, role)
        return DONE


def gathered(role: Object, every: Sequence[Object]) -> list[Object]:
    """The rules of all roles that this one selects, each once, by the roles' names."""
    rules: list[Object] = []
    ordered = sorted(every, key=objects.name)
    for selector in role["aggregationRule"]["clusterRoleSelectors"]:
        try:
            matches = selectors.from_object(selector).matches
        except BadRequest:
            continue  # A selector that cannot be read selects nothing.
        for other in ordered:
            if objects.name(other) != objects.name(role) and matches(objects.labels(other)):
                rules += [rule for rule in other.get("rules") or () if rule not in rules]
    return rules

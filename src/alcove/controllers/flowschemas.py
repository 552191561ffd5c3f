"""Flow schemas: the condition Dangling says whether the priority level that they name exists."""

from __future__ import annotations

from collections.abc import Iterable

from alcove.api import objects
from alcove.api.kinds.flowcontrol.defaults import DANGLING, PRIORITY_LEVELS, dangling
from alcove.api.objects import Object
from alcove.client.changes import ObjectChange
from alcove.client.keys import ObjectKey
from alcove.client.resources import FLOW_SCHEMAS, PRIORITY_LEVEL_CONFIGURATIONS
from alcove.controllers import conditions
from alcove.controllers.conditions import Condition
from alcove.controllers.controller import DONE, Controller, ControllerContext, Result

_LEVEL = "priority level"


def level_of(schema: Object) -> str:
    name: str = objects.get(schema, "spec", "priorityLevelConfiguration", "name", default="")
    return name


def _levels(schema: Object) -> Iterable[str]:
    return (level_of(schema),)


class FlowSchemaController(Controller):
    name = "flow-schema"
    resource = FLOW_SCHEMAS
    workers = 2

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._schemas = self.mirror(FLOW_SCHEMAS, {_LEVEL: _levels})
        self._priority_levels = self.mirror(PRIORITY_LEVEL_CONFIGURATIONS, metadata_only=True)
        self.on(self._schemas)
        self.on(self._priority_levels, self._of_level)

    def _of_level(self, change: ObjectChange) -> Iterable[ObjectKey]:
        key = change.key
        return self._schemas.find_keys(_LEVEL, key.plane, key.tenant, key.name)

    async def reconcile(self, key: ObjectKey) -> Result:
        schema = self._schemas.get(key)
        if schema is None:
            return DONE
        level = level_of(schema)
        # Built-in levels are not stored, so a watch over all tenants omits them.
        exists = level in PRIORITY_LEVELS or self._priority_levels.get(key.of(level, "")) is not None
        reason, message = dangling(level, exists)
        existing = objects.get(schema, "status", "conditions", default=[])
        desired = [Condition(DANGLING, not exists, reason, message)]
        updated = conditions.updated(existing, desired, self.clock())
        if updated != existing:
            schema["status"] = {**(schema.get("status") or {}), "conditions": updated}
            await self.client(key).update(key.tenant, FLOW_SCHEMAS, schema, subresource="status")
        return DONE

"""Sets the time at which a DeviceTaintRule's taint was added, which is that of its effect."""

from collections.abc import Callable

from alcove.api import meta, objects
from alcove.api.ids import GroupResource
from alcove.api.resources import DEVICE_TAINT_RULES
from alcove.apiserver.admission.base import Attributes, Operation, Plugin


class DeviceTaintTime(Plugin):
    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock

    def handles(self, operation: Operation, resource: GroupResource, subresource: str) -> bool:
        writes = operation in (Operation.CREATE, Operation.UPDATE)
        return writes and resource == DEVICE_TAINT_RULES and not subresource

    async def admit(self, attributes: Attributes) -> None:
        assert attributes.obj is not None
        taint = objects.get(attributes.obj, "spec", "taint")
        if taint is None:
            return
        before = objects.get(attributes.old or {}, "spec", "taint", default=taint)
        is_changed = taint.get("effect") != before.get("effect")
        if not taint.get("timeAdded") or (is_changed and taint["timeAdded"] == before.get("timeAdded")):
            taint["timeAdded"] = meta.format_time(self._clock())

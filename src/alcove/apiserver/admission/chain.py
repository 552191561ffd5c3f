"""Runs the plugins that want a write, in order."""

from collections.abc import Sequence

from alcove.api.ids import GroupResource
from alcove.apiserver.admission.base import Attributes, Operation, Plugin

_Wanted = tuple[Operation, GroupResource, str]


class Chain:
    def __init__(self, plugins: Sequence[Plugin]) -> None:
        self._plugins = tuple(plugins)
        self._admit: dict[_Wanted, tuple[Plugin, ...]] = {}
        self._validate: dict[_Wanted, tuple[Plugin, ...]] = {}

    async def admit(self, attributes: Attributes) -> None:
        plugins = self._of(self._admit, "admit", attributes)
        for plugin in plugins:
            await plugin.admit(attributes)
        if attributes.reinvoke:
            attributes.is_reinvoked = True
            for plugin in plugins:
                await plugin.admit(attributes)

    async def validate(self, attributes: Attributes) -> None:
        for plugin in self._of(self._validate, "validate", attributes):
            await plugin.validate(attributes)

    def _of(
        self, known: dict[_Wanted, tuple[Plugin, ...]], method: str, attributes: Attributes
    ) -> tuple[Plugin, ...]:
        wanted = (attributes.operation, attributes.resource, attributes.subresource)
        found = known.get(wanted)
        if found is None:
            found = known[wanted] = tuple(
                plugin
                for plugin in self._plugins
                if getattr(type(plugin), method) is not getattr(Plugin, method) and plugin.handles(*wanted)
            )
        return found

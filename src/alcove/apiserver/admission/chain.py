"""Runs the plugins that handle a write, in order."""

from collections.abc import Sequence

from alcove.api.ids import GroupResource
from alcove.apiserver.admission.base import Attributes, Operation, Plugin

_Key = tuple[Operation, GroupResource, str]


class Chain:
    def __init__(self, plugins: Sequence[Plugin]) -> None:
        self._plugins = tuple(plugins)
        self._admit: dict[_Key, tuple[Plugin, ...]] = {}
        self._validate: dict[_Key, tuple[Plugin, ...]] = {}

    async def admit(self, attributes: Attributes) -> None:
        plugins = self._plugins_for(self._admit, "admit", attributes)
        for plugin in plugins:
            await plugin.admit(attributes)
        if attributes.reinvoke:
            attributes.is_reinvoked = True
            for plugin in plugins:
                await plugin.admit(attributes)

    async def validate(self, attributes: Attributes) -> None:
        for plugin in self._plugins_for(self._validate, "validate", attributes):
            await plugin.validate(attributes)

    def _plugins_for(
        self, cache: dict[_Key, tuple[Plugin, ...]], method: str, attributes: Attributes
    ) -> tuple[Plugin, ...]:
        key = (attributes.operation, attributes.resource, attributes.subresource)
        plugins = cache.get(key)
        if plugins is None:
            plugins = cache[key] = tuple(
                plugin
                for plugin in self._plugins
                if getattr(type(plugin), method) is not getattr(Plugin, method) and plugin.handles(*key)
            )
        return plugins

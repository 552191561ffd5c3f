"""The network that every new tenant gets, rendered from a file.

JSON or YAML of one Network; `{{.}}` or `{{ tenant }}` in it is the tenant's name. Whatever it says, the
network is the tenant's own: `metadata.tenant` is overridden. Without a file it is a flat network.
"""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from alcove.api.ids import TenantId
from alcove.api.objects import Object

_NAME = re.compile(r"\{\{-?\s*(?:\.|tenant)\s*-?\}\}")
FLAT = '{"metadata": {"name": "default"}, "spec": {"type": "flat"}}'


class BadTemplate(Exception):
    """The template is no network; the message says why."""


class NetworkTemplate:
    def __init__(self, text: str = FLAT, source: str = "the default") -> None:
        self._text = text
        self._source = source
        self.render(TenantId("tenant"))

    @classmethod
    def load(cls, path: Path | None) -> NetworkTemplate:
        """Raises BadTemplate, at once and not when the first tenant comes."""
        if path is None:
            return cls()
        try:
            return cls(path.read_text(), str(path))
        except OSError as error:
            raise BadTemplate(f"cannot read {path}: {error.strerror}") from error

    def render(self, tenant: TenantId) -> Object:
        """A network of the tenant, not yet made. Raises BadTemplate."""
        try:
            network = yaml.safe_load(_NAME.sub(tenant, self._text))
        except yaml.YAMLError as error:
            raise BadTemplate(f"{self._source} is neither JSON nor YAML: {error}") from error
        if not isinstance(network, dict) or not isinstance(network.get("spec"), dict):
            raise BadTemplate(f"{self._source} does not describe a network: it has no spec")
        if network.get("kind", "Network") != "Network":
            raise BadTemplate(f"{self._source} describes a {network['kind']}, not a Network")
        metadata = network.get("metadata") or {}
        if not isinstance(metadata, dict):
            raise BadTemplate(f"{self._source} has metadata that is no object")
        metadata = {"name": "default", **metadata, "tenant": tenant}
        return {"apiVersion": "arktos.futurewei.com/v1", "kind": "Network", **network, "metadata": metadata}

"""The default network of new tenants, rendered from a template file.

JSON or YAML of one Network; `{{.}}` or `{{ tenant }}` is replaced by the tenant's name. `metadata.tenant` is
always overridden. Without a file the network is flat.
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
    """The template is not a valid Network; the message says why."""


class NetworkTemplate:
    def __init__(self, text: str = FLAT, source: str = "the default") -> None:
        self._text = text
        self._source = source
        self.render(TenantId("tenant"))

    @classmethod
    def load(cls, path: Path | None) -> NetworkTemplate:
        """Raises BadTemplate for an invalid template on load, not only when the first tenant is created."""
        if path is None:
            return cls()
        try:
            return cls(path.read_text(), str(path))
        except OSError as error:
            raise BadTemplate(f"cannot read {path}: {error.strerror}") from error

    def render(self, tenant: TenantId) -> Object:
        """The Network object to create for the tenant. Raises BadTemplate."""
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
            raise BadTemplate(f"{self._source} has metadata that is not an object")
        metadata = {"name": "default", **metadata, "tenant": tenant}
        return {"apiVersion": "arktos.futurewei.com/v1", "kind": "Network", **network, "metadata": metadata}

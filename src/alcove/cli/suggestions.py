"""Shell completion of tenant, node and log names. On any error nothing is suggested."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from alcove.client.resources import Resource


def tenants(incomplete: str) -> list[str]:
    from alcove.client.resources import TENANTS

    return _names(TENANTS, incomplete)


def nodes(incomplete: str) -> list[str]:
    from alcove.client.resources import NODES

    return _names(NODES, incomplete)


def logs(incomplete: str) -> list[str]:
    from alcove.cli.data_directories import cluster_data

    found = sorted(path.stem for path in (cluster_data() / "logs").glob("*.log"))
    return [name for name in found if name.startswith(incomplete)]


def _names(resource: Resource, incomplete: str) -> list[str]:
    from alcove.api.errors import ApiError
    from alcove.cli.connection import ConnectionFailed
    from alcove.cli.session import CliSession

    try:
        found = CliSession().items(resource)
    except (ApiError, ConnectionFailed):
        return []
    return [name for item in found if (name := item["metadata"]["name"]).startswith(incomplete)]

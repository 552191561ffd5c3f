"""Options for dedicated tenants' planes."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from alcove.api.ids import TenantId

Planes = Annotated[
    list[str] | None,
    typer.Option(help="Dedicated tenant's API server as TENANT=KUBECONFIG; repeatable."),
]
PlanesDirectory = Annotated[
    Path | None,
    typer.Option(
        help="Directory of TENANT.kubeconfig files; planes are joined and left as files appear and disappear."
    ),
]


def paths_of(planes: Iterable[str] | None) -> dict[TenantId, Path]:
    """Raises BadParameter."""
    from alcove.api.ids import TenantId

    pairs = [each.partition("=") for each in planes or ()]
    if not all(name and path for name, _, path in pairs):
        raise typer.BadParameter("a plane must have the form TENANT=KUBECONFIG")
    return {TenantId(name): Path(path) for name, _, path in pairs}

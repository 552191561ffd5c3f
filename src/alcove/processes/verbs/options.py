"""Options that several commands of the cluster's processes share."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from alcove.component.logs import Form, Level

if TYPE_CHECKING:
    from alcove.api.ids import TenantId

LOG_LEVEL = typer.Option("--log-level", envvar="ALCOVE_LOG_LEVEL", help="Minimum log level; default: info.")
LOG_FORMAT = typer.Option(
    "--log-format", envvar="ALCOVE_LOG_FORMAT", help="Log format on standard error; default: text."
)
LevelOption = Annotated[Level, LOG_LEVEL]
FormatOption = Annotated[Form, LOG_FORMAT]
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
ProbePort = Annotated[int | None, typer.Option(help="Loopback port for /metrics, /healthz and /readyz.")]
Ring0Kubeconfig = Annotated[
    Path | None, typer.Option(help="Kubeconfig of ring0; default: $KUBECONFIG or ~/.kube/config.")
]
LeaseSeconds = Annotated[
    float,
    typer.Option(
        min=1, help="Lease duration: seconds until another process replaces an unresponsive leader."
    ),
]


def paths_of(planes: Iterable[str] | None) -> dict[TenantId, Path]:
    """Raises BadParameter."""
    from alcove.api.ids import TenantId

    pairs = [each.partition("=") for each in planes or ()]
    if not all(name and path for name, _, path in pairs):
        raise typer.BadParameter("a plane must have the form TENANT=KUBECONFIG")
    return {TenantId(name): Path(path) for name, _, path in pairs}

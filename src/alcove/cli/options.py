"""Options that several commands share."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from alcove.cli import suggestions


class OutputFormat(StrEnum):
    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"


KubeconfigOption = Annotated[
    Path | None,
    typer.Option(
        "--kubeconfig",
        help="Kubeconfig of ring0; default: $KUBECONFIG, else that of this machine's cluster, else ~/.kube/config.",
    ),
]
TenantArgument = Annotated[
    str, typer.Argument(help="Name of the tenant.", show_default=False, autocompletion=suggestions.tenants)
]
FormatOption = Annotated[OutputFormat, typer.Option("--output", "-o", help="Output format.")]
WaitOption = Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until the operation is complete.")]
TimeoutOption = Annotated[
    float, typer.Option("--timeout", min=0.1, help="Seconds to wait before giving up with exit code 4.")
]
TenantOption = Annotated[
    str,
    typer.Option(
        "--tenant", "-t", help="Show only this tenant; default: all.", autocompletion=suggestions.tenants
    ),
]

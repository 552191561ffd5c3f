"""Options that many verbs share, so that they are spelt and explained the same everywhere."""

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
        help="Ring0's kubeconfig; default $KUBECONFIG, else this machine's cluster's, else ~/.kube/config.",
    ),
]
FormatOption = Annotated[OutputFormat, typer.Option("--output", "-o", help="How to show it.")]
WaitOption = Annotated[bool, typer.Option("--wait/--no-wait", help="Return only when it is done.")]
TimeoutOption = Annotated[
    float, typer.Option("--timeout", min=0.1, help="Seconds to wait; exits with 4 when they are over.")
]
TenantOption = Annotated[
    str,
    typer.Option(
        "--tenant", "-t", help="One tenant; default: all of them.", autocompletion=suggestions.tenants
    ),
]

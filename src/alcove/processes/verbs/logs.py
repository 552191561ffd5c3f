"""Logging options of the cluster's processes."""

from __future__ import annotations

from typing import Annotated

import typer

from alcove.component.logs import Form, Level

LOG_LEVEL = typer.Option("--log-level", envvar="ALCOVE_LOG_LEVEL", help="Minimum log level; default: info.")
LOG_FORMAT = typer.Option(
    "--log-format", envvar="ALCOVE_LOG_FORMAT", help="Log format on standard error; default: text."
)
LevelOption = Annotated[Level, LOG_LEVEL]
FormatOption = Annotated[Form, LOG_FORMAT]

"""`alcove completion SHELL`: prints the shell's completion script."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

PROGRAM = "alcove"


class Shell(StrEnum):
    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(
    shell: Annotated[Shell, typer.Argument(help="Shell to print the script for.", show_default=False)],
) -> None:
    """Print the shell completion script; use it as in `source <(alcove completion bash)`."""
    from typer._completion_shared import get_completion_script

    variable = f"_{PROGRAM.upper()}_COMPLETE"
    typer.echo(get_completion_script(prog_name=PROGRAM, complete_var=variable, shell=shell.value))

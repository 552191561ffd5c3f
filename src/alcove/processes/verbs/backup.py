"""The verbs `alcove backup` and `alcove restore`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from alcove.cli.data_directories import DEFAULT_NAME
from alcove.cli.errors import CliError, exit_on_error
from alcove.processes.verbs.machine import DataOption, NameOption, data_directory_of


def backup(
    file: Annotated[Path, typer.Argument(help="A new file; it will have every secret of every tenant.")],
    name: NameOption = DEFAULT_NAME,
    data: DataOption = None,
) -> None:
    """Save the objects of all tenants, and the cluster's keys, to a file, while it runs."""
    from alcove.processes.backup import BackupFailed, save

    with exit_on_error():
        try:
            made = save(data_directory_of(name, data), file)
        except BackupFailed as error:
            raise CliError(str(error)) from error
    typer.echo(
        f"saved {made.objects} objects at revision {made.revision}: {file}, {made.size_bytes >> 10} KiB"
    )


def restore(
    file: Annotated[Path, typer.Argument(help="What `alcove backup` wrote.")],
    replace: Annotated[
        bool, typer.Option("--replace", help="Set the state that is there aside; it is not removed.")
    ] = False,
    name: NameOption = DEFAULT_NAME,
    data: DataOption = None,
) -> None:
    """Bring back what `alcove backup` saved, while the cluster is down; clients then list anew."""
    from alcove.processes.backup import BackupFailed
    from alcove.processes.backup import restore as bring_back

    with exit_on_error():
        try:
            made = bring_back(file, data_directory_of(name, data), replace=replace)
        except BackupFailed as error:
            raise CliError(str(error)) from error
    typer.echo(f"restored {made.objects} objects; the cluster goes on at revision {made.revision}")

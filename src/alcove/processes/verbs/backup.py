"""The commands `alcove backup` and `alcove restore`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from alcove.cli.data_directories import DEFAULT_NAME
from alcove.cli.errors import CliError, exit_on_error
from alcove.processes.verbs.machine import DataOption, NameOption, data_directory_of


def backup(
    file: Annotated[
        Path, typer.Argument(help="File to create; it contains all tenants' objects and the cluster's CA.")
    ],
    name: NameOption = DEFAULT_NAME,
    data: DataOption = None,
) -> None:
    """Save all tenants' objects and the cluster's keys to a file; the cluster may be running."""
    from alcove.processes.backup import BackupFailed, save
    from alcove.store.encryption_config import ENCRYPTION_FILE

    with exit_on_error():
        directory = data_directory_of(name, data)
        try:
            saved = save(directory, file)
        except BackupFailed as error:
            raise CliError(str(error)) from error
    typer.echo(
        f"saved {saved.objects} objects at revision {saved.revision}: {file}, {saved.size_bytes >> 10} KiB"
    )
    if saved.encrypted:
        keys = directory / ENCRYPTION_FILE
        where = str(keys) if keys.exists() else "the file of --encryption-provider-config"
        typer.echo(
            f"{saved.encrypted} of them are encrypted; their keys are not in the backup: keep a copy of {where} elsewhere"
        )


def restore(
    file: Annotated[Path, typer.Argument(help="File written by `alcove backup`.")],
    replace: Annotated[
        bool, typer.Option("--replace", help="Move existing state aside; it is not removed.")
    ] = False,
    name: NameOption = DEFAULT_NAME,
    data: DataOption = None,
) -> None:
    """Restore a file of `alcove backup`; the cluster must be down. Clients relist afterwards."""
    from alcove.processes.backup import BackupFailed
    from alcove.processes.backup import restore as restore_backup
    from alcove.store.encryption_config import ENCRYPTION_FILE

    with exit_on_error():
        directory = data_directory_of(name, data)
        try:
            restored = restore_backup(file, directory, replace=replace)
        except BackupFailed as error:
            raise CliError(str(error)) from error
    typer.echo(f"restored {restored.objects} objects; the cluster continues at revision {restored.revision}")
    for reason, objects in restored.unreadable.items():
        typer.echo(
            f"warning: {objects} objects cannot be decrypted with {directory / ENCRYPTION_FILE}: {reason}; "
            "copy the saved cluster's file there before the start",
            err=True,
        )

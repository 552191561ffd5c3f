"""What the backup controller asks the process to do, since controllers know nothing of the command line."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from msgspec import Struct

OBJECTS_SECONDS_MAX = 600.0
"""Of a backup without files in volumes: ten million objects take less."""
BACKUP_SECONDS_MAX = 4 * 3_600.0


class BackupRequest(Struct, frozen=True):
    """One run of `alcove tenant backup`."""

    tenant: str
    place: str
    keep: int
    volumes: bool = False
    """With the files in volumes."""
    settings: dict[str, str] = {}
    """The data of the Secret: environment variables of the S3 client (`AWS_…`), and `passphrase`."""


RunBackup = Callable[[BackupRequest], Awaitable[str]]
"""Returns why it failed; empty if it did not."""

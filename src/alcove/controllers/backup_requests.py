"""What the backup controller asks the process to do, since controllers know nothing of the command line."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from msgspec import Struct


class BackupRequest(Struct, frozen=True):
    """One run of `alcove tenant backup`."""

    tenant: str
    place: str
    keep: int
    settings: dict[str, str] = {}
    """The data of the Secret: environment variables of the S3 client (`AWS_…`), and `passphrase`."""


RunBackup = Callable[[BackupRequest], Awaitable[str]]
"""Returns why it failed; empty if it did not."""

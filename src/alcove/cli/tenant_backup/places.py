"""Where backups are kept: a file, or an object in a store with the S3 API (`s3://BUCKET/KEY`)."""

from __future__ import annotations

import io
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from alcove.cli.errors import CliError, ExitCode
from alcove.cli.private_files import new_file
from alcove.cli.tenant_backup.sealing import MAGIC, PASSPHRASE_BYTES_MIN, SealingWriter, UnsealingReader

S3 = "s3://"
_BUFFER_BYTES = 1 << 20


def read_passphrase(file: Path | None) -> bytes:
    """The passphrase in the file, without the line break at its end; empty if there is no file."""
    if file is None:
        return b""
    passphrase = file.read_bytes().rstrip(b"\r\n")
    if len(passphrase) < PASSPHRASE_BYTES_MIN:
        raise CliError(
            f"{file}: a passphrase must have at least {PASSPHRASE_BYTES_MIN} bytes", ExitCode.USAGE
        )
    return passphrase


@contextmanager
def writing(place: str, passphrase: bytes) -> Iterator[BinaryIO]:
    """A stream whose content is at `place` when the block ends without an error, and not before."""
    with _raw(place) as raw:
        if not passphrase:
            yield raw
            return
        sealing = SealingWriter(raw, passphrase)
        yield cast(BinaryIO, sealing)
        sealing.finish()


@contextmanager
def _raw(place: str) -> Iterator[BinaryIO]:
    if place.startswith(S3):
        from alcove.cli.tenant_backup.s3 import upload

        with upload(place) as out:
            yield out
        return
    try:
        with new_file(Path(place)) as out:
            yield out
    except FileExistsError as error:
        raise CliError(f"{place} already exists") from error


@contextmanager
def local_copy(place: str) -> Iterator[Path]:
    """A file with what is at `place`: it is read several times, and must not change in between."""
    if not place.startswith(S3):
        yield Path(place)
        return
    from alcove.cli.tenant_backup.s3 import download

    with tempfile.NamedTemporaryFile(prefix="alcove-restore-") as file:  # Mode 0600.
        with download(place) as stream:
            shutil.copyfileobj(stream, file, _BUFFER_BYTES)
        file.flush()
        yield Path(file.name)


@contextmanager
def reading(file: Path, passphrase: bytes) -> Iterator[BinaryIO]:
    """The archive in the file, decrypted if it is encrypted. Raises CliError."""
    with file.open("rb", buffering=_BUFFER_BYTES) as raw:
        is_sealed = raw.read(len(MAGIC)) == MAGIC
        if not is_sealed:
            raw.seek(0)
            yield raw
            return
        if not passphrase:
            raise CliError("the backup is encrypted: use --passphrase-file")
        yield cast(BinaryIO, io.BufferedReader(UnsealingReader(raw, passphrase), _BUFFER_BYTES))

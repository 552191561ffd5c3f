"""Runs `alcove tenant backup` for the backup controller, in a process of its own: it needs memory and time, and has the
credentials of one tenant's store in its environment."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from pathlib import Path

from alcove.cli.private_files import open_private
from alcove.controllers.backup_requests import (
    BACKUP_SECONDS_MAX,
    OBJECTS_SECONDS_MAX,
    BackupRequest,
    RunBackup,
)

BACKUP_BYTES_MAX = 64 << 30
"""A dedicated plane's API server may say that there are objects for as long as it likes."""
_PASSPHRASE = "passphrase"
_PREFIX = "AWS_"
_INHERITED = ("PATH", "HOME", "LANG", "TZ", "SSL_CERT_FILE", "SSL_CERT_DIR", "PYTHONPATH")
"""Of the controllers' environment. No credentials: a tenant without a Secret has none."""
_MESSAGE_BYTES_MAX = 2_000


def backup_runner(kubeconfig: Path) -> RunBackup:
    """`kubeconfig` is ring0's, of the controllers."""

    async def run(request: BackupRequest) -> str:
        try:
            with tempfile.TemporaryDirectory(prefix="alcove-backup-") as directory:  # Mode 0700.
                return await _run(request, kubeconfig, Path(directory))
        except OSError as error:
            return f"cannot run the backup: {error}"

    return run


async def _run(request: BackupRequest, kubeconfig: Path, directory: Path) -> str:
    arguments = [*_arguments(request, directory), "--kubeconfig", str(kubeconfig)]
    environment = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    environment |= {name: text for name, text in request.settings.items() if name.startswith(_PREFIX)}
    seconds_max = BACKUP_SECONDS_MAX if request.volumes else OBJECTS_SECONDS_MAX
    errors = directory / "errors"
    with errors.open("wb") as err:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "alcove.processes.main"),
            *arguments,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=err,
            env=environment,
        )
    try:
        async with asyncio.timeout(seconds_max):
            code = await process.wait()
    except TimeoutError:
        return f"the backup did not finish within {seconds_max:.0f} s"
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if code == 0:
        return ""
    return _last(errors) or f"the backup ended with exit code {code}"


def _arguments(request: BackupRequest, directory: Path) -> list[str]:
    arguments = ["tenant", "backup", request.tenant, "--output", request.place]
    arguments += ["--keep", str(request.keep), "--size-max", str(BACKUP_BYTES_MAX)]
    if request.volumes:
        arguments.append("--volumes")
    if passphrase := request.settings.get(_PASSPHRASE):
        file = directory / _PASSPHRASE
        with open(file, "x", opener=open_private) as out:
            out.write(passphrase)
        arguments += ["--passphrase-file", str(file)]
    return arguments


def _last(errors: Path) -> str:
    text = errors.read_bytes()[-_MESSAGE_BYTES_MAX:].decode(errors="replace").strip()
    return text.removeprefix("error: ")

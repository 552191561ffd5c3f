"""The command `alcove setup`: installs the system packages that nodes need."""

from __future__ import annotations

from pathlib import Path

from alcove.cli.errors import CliError, exit_on_error

SCRIPT = Path(__file__).resolve().parents[2] / "deploy" / "packages"
"""In a checkout `src/alcove/deploy` is a link to `deploy`; a wheel contains the files."""


def setup() -> None:
    """Install the system packages that nodes need (crun, gVisor, nftables, …); needs root."""
    import os
    import shutil

    with exit_on_error():
        shell = shutil.which("bash")
        if shell is None:
            raise CliError("bash is not installed")
        is_checkout = SCRIPT.parent.is_symlink()
        os.execv(shell, [shell, str(SCRIPT), *(() if is_checkout else ("nodes",))])

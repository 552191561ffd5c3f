"""The trial of this machine's container runtimes: each runs a sandbox with a container, exactly as a node
does.

That a runtime is installed is not enough: an old gVisor may not support a new kernel, and a runtime may lack
the privileges or cgroups that it needs.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from alcove.agent.cgroups import Cgroups
from alcove.agent.images import builtin
from alcove.agent.images.model import ToolMissing
from alcove.agent.runtime import seccomp
from alcove.agent.runtime.base import HandlerName, SpecRefused
from alcove.agent.runtime.canary import Canary
from alcove.agent.runtime.flavors import GVISOR
from alcove.agent.runtime.handlers import RuntimeHandlers, prove_all
from alcove.agent.runtime.proven_runtimes import FOLDER as PROOFS
from alcove.agent.runtime.proven_runtimes import ProvenRuntimes
from alcove.processes.machine.preflight import CheckState, PreflightFinding
from alcove.processes.nodes import reboots

NAME = "runtimes"
ROOTFS = "image"
REASON_CHARACTERS_MAX = 100
GVISOR_FIX = (
    "`make setup` as root installs one that works (Debian 12: apt-get install -t bookworm-backports runsc)"
)


class Untried(Exception):
    """The runtimes cannot be tried on this machine. The message says why, `fix` what to do."""

    def __init__(self, reason: str, fix: str) -> None:
        super().__init__(reason)
        self.fix = fix


def try_runtimes(directory: Path) -> RuntimeHandlers:
    """All installed runtimes, proven or failed. Raises Untried.

    Runtimes that were proven in the same directory since the last boot are not tried again, as on a node.
    """
    program = _program()
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        reboots.begin(directory)
        with _image(program, directory) as rootfs:
            canary = Canary(rootfs, directory / "canary", f"/alcove-trial-{os.getpid()}")
            return asyncio.run(prove_all(directory, Cgroups.of_machine(), canary))
    except OSError as error:
        message = f"cannot be tried in {error.filename or directory}: {error.strerror or error}"
        raise Untried(message, "free some space, or choose another directory with --data") from error


def try_once(beside: Path) -> RuntimeHandlers:
    """As `try_runtimes`, in a temporary directory below `beside`: earlier results are not used.

    `beside` is where nodes keep their state, because file systems differ in what they allow (`noexec`, for
    example).
    """
    _program()
    try:
        with TemporaryDirectory(prefix=".alcove-trial-", dir=beside, ignore_cleanup_errors=True) as directory:
            return try_runtimes(Path(directory))
    except OSError as error:
        message = f"cannot be tried in {beside}: {error.strerror or error}"
        raise Untried(message, "free some space, or choose another directory with --data") from error


def _program() -> Path:
    """The program that trial containers run. Raises Untried if a requirement of trials is missing."""
    if os.geteuid() != 0:
        raise Untried("cannot be tried without root", "run it with sudo")
    try:
        program = builtin.find()
        seccomp.load()
    except ToolMissing as error:
        raise Untried(f"cannot be tried: {error}", "apt-get install busybox-static") from error
    except SpecRefused as error:
        raise Untried(
            f"cannot be tried: {error}", "apt-get install golang-github-containers-common"
        ) from error
    return program


def hand_over(directory: Path, runtimes: Path) -> None:
    """Copies the proofs in `folder` to a node's directory `runtimes`, so that it need not prove them
    again."""
    runtimes.mkdir(parents=True, exist_ok=True, mode=0o700)
    ProvenRuntimes(directory / PROOFS).copy_to(ProvenRuntimes(runtimes / PROOFS))


def judge(handlers: RuntimeHandlers) -> PreflightFinding:
    """The preflight finding for the outcome of a trial."""
    proven = ", ".join(sorted(handlers.proven))
    if not handlers.proven:
        if not handlers.failed:
            return PreflightFinding(
                NAME, CheckState.HOLLOW, "no OCI runtime is installed", "apt-get install crun runsc"
            )
        return PreflightFinding(NAME, CheckState.HOLLOW, f"none works: {_reasons(handlers)}", _fix(handlers))
    if GVISOR.handler in handlers.failed:
        message = f"gVisor fails its trial, so tenants' pods cannot run ({proven} for ring0's): {_reasons(handlers)}"
        return PreflightFinding(NAME, CheckState.NO_TENANTS, message, GVISOR_FIX)
    if handlers.failed:
        message = f"{proven} work; pods with another runtime cannot start: {_reasons(handlers)}"
        return PreflightFinding(NAME, CheckState.WARNING, message, _fix(handlers))
    if GVISOR.handler not in handlers.proven:
        message = f"{proven}; without gVisor tenants share this machine's kernel"
        return PreflightFinding(NAME, CheckState.WARNING, message, GVISOR_FIX)
    return PreflightFinding(NAME, CheckState.OK, f"{proven}: each has run a container")


def _reasons(handlers: RuntimeHandlers) -> str:
    return "; ".join(f"{name}: {_brief(reason)}" for name, reason in sorted(handlers.failed.items()))


def _brief(reason: str) -> str:
    """The end of a runtime's error on one line: the cause comes last."""
    line = " ".join(reason.split())
    return line if len(line) <= REASON_CHARACTERS_MAX else f"…{line[-REASON_CHARACTERS_MAX:]}"


def _fix(handlers: RuntimeHandlers) -> str:
    packages = {GVISOR.handler: GVISOR.binary}
    names = sorted(packages.get(HandlerName(name), name) for name in handlers.failed)
    if all("is not installed" in reason for reason in handlers.failed.values()):
        return "apt-get install conmon"
    return f"apt-get install --reinstall {' '.join(names)}"


@contextmanager
def _image(program: Path, directory: Path) -> Iterator[Path]:
    """A fresh copy of the built-in image: an earlier trial may have been interrupted."""
    with TemporaryDirectory(prefix=f"{ROOTFS}-", dir=directory, ignore_cleanup_errors=True) as name:
        builtin.build(program, Path(name))
        yield Path(name)

"""The trial of this machine's container runtimes: each runs a sandbox and a container in it, exactly as a node does.

An installed program proves nothing: an old gVisor has no platform for a new kernel, and a container runtime may lack
the rights or the control groups that it needs.
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
    """The runtimes cannot be tried here. The message says why; `fix` what to do."""

    def __init__(self, why: str, fix: str) -> None:
        super().__init__(why)
        self.fix = fix


def try_runtimes(folder: Path) -> RuntimeHandlers:
    """Every runtime that is installed, proven or failed. Raises Untried.

    What was proven in the same folder since the machine was started is not tried again, as on a node.
    """
    program = _program()
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        reboots.begin(folder)
        with _image(program, folder) as rootfs:
            canary = Canary(rootfs, folder / "canary", f"/alcove-trial-{os.getpid()}")
            return asyncio.run(prove_all(folder, Cgroups.of_machine(), canary))
    except OSError as error:
        message = f"cannot be tried in {error.filename or folder}: {error.strerror or error}"
        raise Untried(message, "free some space, or name another folder with --data") from error


def try_once(beside: Path) -> RuntimeHandlers:
    """The same in a new folder below `beside`: nothing is taken from earlier trials, and nothing stays.

    It is where nodes would be, because a file system may forbid what another allows (`noexec`, for one).
    """
    _program()
    try:
        with TemporaryDirectory(prefix=".alcove-trial-", dir=beside, ignore_cleanup_errors=True) as folder:
            return try_runtimes(Path(folder))
    except OSError as error:
        message = f"cannot be tried in {beside}: {error.strerror or error}"
        raise Untried(message, "free some space, or name another folder with --data") from error


def _program() -> Path:
    """What the container of a trial runs. Raises Untried where no trial can be made."""
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


def hand_over(folder: Path, runtimes: Path) -> None:
    """What the trial in `folder` has proven, a node with its runtimes' state in `runtimes` need not prove again."""
    runtimes.mkdir(parents=True, exist_ok=True, mode=0o700)
    ProvenRuntimes(folder / PROOFS).copy_to(ProvenRuntimes(runtimes / PROOFS))


def judge(handlers: RuntimeHandlers) -> PreflightFinding:
    """What the outcome of a trial means for pods."""
    works = ", ".join(sorted(handlers.proven))
    if not handlers.proven:
        if not handlers.failed:
            return PreflightFinding(
                NAME, CheckState.HOLLOW, "no OCI runtime is installed", "apt-get install crun runsc"
            )
        return PreflightFinding(NAME, CheckState.HOLLOW, f"none works: {_reasons(handlers)}", _fix(handlers))
    if GVISOR.handler in handlers.failed:
        message = (
            f"gVisor fails its trial, so tenants' pods cannot run ({works} for ring0's): {_reasons(handlers)}"
        )
        return PreflightFinding(NAME, CheckState.NO_TENANTS, message, GVISOR_FIX)
    if handlers.failed:
        message = f"{works} work; pods that name one of the others do not start: {_reasons(handlers)}"
        return PreflightFinding(NAME, CheckState.WARNING, message, _fix(handlers))
    if GVISOR.handler not in handlers.proven:
        message = f"{works}; without gVisor tenants share this machine's kernel"
        return PreflightFinding(NAME, CheckState.WARNING, message, GVISOR_FIX)
    return PreflightFinding(NAME, CheckState.OK, f"{works}: each has run a container")


def _reasons(handlers: RuntimeHandlers) -> str:
    return "; ".join(f"{name}: {_brief(why)}" for name, why in sorted(handlers.failed.items()))


def _brief(why: str) -> str:
    """The end of what a runtime said, on one line: its last words say what went wrong."""
    line = " ".join(why.split())
    return line if len(line) <= REASON_CHARACTERS_MAX else f"…{line[-REASON_CHARACTERS_MAX:]}"


def _fix(handlers: RuntimeHandlers) -> str:
    packages = {GVISOR.handler: GVISOR.binary}
    names = sorted(packages.get(HandlerName(name), name) for name in handlers.failed)
    if all("is not installed" in why for why in handlers.failed.values()):
        return "apt-get install conmon"
    return f"apt-get install --reinstall {' '.join(names)}"


@contextmanager
def _image(program: Path, folder: Path) -> Iterator[Path]:
    """The files of the built-in image, made anew: an earlier trial may have been cut short."""
    with TemporaryDirectory(prefix=f"{ROOTFS}-", dir=folder, ignore_cleanup_errors=True) as name:
        builtin.build(program, Path(name))
        yield Path(name)

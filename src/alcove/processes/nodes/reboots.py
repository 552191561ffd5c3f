"""Forgets recorded process ids after a reboot, or after all processes of a node were killed.

The ids may belong to unrelated processes by then, and a runtime that removes such a container would kill
them. `runtimes/boot` holds the boot id that the rest of the directory belongs to. Records of what ran and its
exit stay.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec

from alcove.agent.runtime.bundle import ProcessIdentity

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
MARK = "boot"
NO_PROCESS = ProcessIdentity(0, 0)
"""A process that is not running."""


def begin(runtimes: Path) -> None:
    """Discards process records of an earlier boot. Call it before the directory is used."""
    mark, now = runtimes / MARK, BOOT_ID.read_text()
    if not mark.exists() or mark.read_text() != now:
        forget(runtimes)
        mark.write_text(now)


def forget(runtimes: Path) -> None:
    """Discards the runtimes' process records; all processes must have exited. Idempotent."""
    for state in (*runtimes.glob("*/state"), *runtimes.glob("*/canary/state")):
        shutil.rmtree(state)
    for bundle in (*runtimes.glob("*/containers/*"), *runtimes.glob("*/canary/containers/*")):
        if (bundle / "pid").exists():
            draft = bundle / ".process.new"
            draft.write_bytes(msgspec.json.encode(NO_PROCESS))
            draft.rename(bundle / "process")
        (bundle / "conmon.pid").unlink(missing_ok=True)

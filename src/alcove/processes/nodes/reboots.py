"""What a node knows of its containers' processes holds until the machine is started anew, or everything on it was ended:
their numbers may be strangers' from then on, and a runtime that is told to remove such a container would end the stranger.

`runtimes/boot` has the number of the boot that the rest of the folder is of. What was run, and how it ended, stays.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec

from alcove.agent.runtime.bundle import ProcessIdentity

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
MARK = "boot"
NOBODY = ProcessIdentity(0, 0)
"""Who runs no more, whoever has which number."""


def begin(runtimes: Path) -> None:
    """Before anything in the folder is used: what is of an earlier boot is forgotten."""
    mark, now = runtimes / MARK, BOOT_ID.read_text()
    if not mark.exists() or mark.read_text() != now:
        forget(runtimes)
        mark.write_text(now)


def forget(runtimes: Path) -> None:
    """What runtimes remember of processes, all of which have ended. Idempotent."""
    for state in (*runtimes.glob("*/state"), *runtimes.glob("*/canary/state")):
        shutil.rmtree(state)
    for bundle in (*runtimes.glob("*/containers/*"), *runtimes.glob("*/canary/containers/*")):
        if (bundle / "pid").exists():
            draft = bundle / ".process.new"
            draft.write_bytes(msgspec.json.encode(NOBODY))
            draft.rename(bundle / "process")
        (bundle / "conmon.pid").unlink(missing_ok=True)

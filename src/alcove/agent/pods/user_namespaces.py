"""Whether a node can give a pod users of its own (`hostUsers: false`): by a runtime that maps files' owners in volumes, and
with a way to the pod's files for others than root."""

import logging
import stat
from pathlib import Path

from alcove.agent.pods.executor import PodSetupError
from alcove.agent.runtime.flavors import CRUN

log = logging.getLogger(__name__)


def closed_folders(path: Path) -> list[Path]:
    """The folders on the way to `path`, itself included, that let only their owner through."""
    path = path.resolve()
    return [each for each in (*reversed(path.parents), path) if not each.stat().st_mode & stat.S_IXOTH]


def can_map(handler: str, data: Path) -> bool:
    return handler == CRUN.handler and not closed_folders(data)


def check(handler: str, data: Path, *, is_ring0: bool) -> None:
    """Raises PodTrouble, which tells what to do: it is tried again, and the pod runs once that was done."""
    if handler != CRUN.handler:
        message = (
            f"hostUsers: false cannot be had in {handler}, which does not map the owners of files in volumes"
        )
        raise PodSetupError(
            "FailedCreatePodSandBox", f"{message}: use a RuntimeClass of {CRUN.handler}, or gvisor"
        )
    closed = closed_folders(data)
    if not closed:
        return
    remedy = f"chmod o+x {' '.join(map(str, closed))}"
    log.warning("a pod with users of its own cannot get to its files", extra={"remedy": remedy})
    message = "hostUsers: false needs a node whose data directory lets others than root pass through"
    # Where a node keeps its files is not a tenant's business.
    message += (
        f": `{remedy}`, or keep it elsewhere (--data)"
        if is_ring0
        else "; ask its operator, whose log says how"
    )
    raise PodSetupError("FailedCreatePodSandBox", message)

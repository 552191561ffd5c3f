"""Whether a node can run a pod in a user namespace (`hostUsers: false`): the runtime must support idmapped
mounts, and the path to the pod's files must be searchable by users other than root."""

import logging
import stat
from pathlib import Path

from alcove.agent.pods.executor import PodSetupError
from alcove.agent.runtime.flavors import CRUN

log = logging.getLogger(__name__)


def inaccessible_directories(path: Path) -> list[Path]:
    """The directories on the path to `path`, itself included, that others than their owner cannot enter."""
    path = path.resolve()
    return [each for each in (*reversed(path.parents), path) if not each.stat().st_mode & stat.S_IXOTH]


def can_map(handler: str, data: Path) -> bool:
    return handler == CRUN.handler and not inaccessible_directories(data)


def check(handler: str, data: Path, *, is_ring0: bool) -> None:
    """Raises PodSetupError with a message that says how to fix it; the pod starts on a retry after the
    fix."""
    if handler != CRUN.handler:
        message = f"hostUsers: false is not supported by {handler}, which does not map file owners in volumes"
        raise PodSetupError(
            "FailedCreatePodSandBox",
            f"{message}: use a RuntimeClass with handler {CRUN.handler} or gvisor",
        )
    inaccessible = inaccessible_directories(data)
    if not inaccessible:
        return
    remedy = f"chmod o+x {' '.join(map(str, inaccessible))}"
    log.warning("user namespace cannot access pod files", extra={"remedy": remedy})
    message = "hostUsers: false needs a node whose data directory can be entered by users other than root"
    # Paths on the node are not shown to tenants.
    message += (
        f": run `{remedy}`, or use another directory (--data)"
        if is_ring0
        else "; ask the operator, the node's log says how"
    )
    raise PodSetupError("FailedCreatePodSandBox", message)

"""The cgroup of a pod for processes of the node that serve it, so that the pod pays for them: conmon, commands of the
runtime that wait for a container, and those that run a process in it."""

from collections.abc import Sequence
from pathlib import Path

from alcove.agent.cgroups import Cgroups

GROUP = "_node"
"""The name of the cgroup in that of the pod, beside those of the containers; no id of a container begins like that."""
BYTES_PER_CONTAINER = 8 << 20
"""Memory of these processes that a pod has beside its own limit, for each container: more than twice what conmon and
a command that waits take. Without it they would take from what the pod's containers may use."""


def entries(cgroups: Cgroups, container_cgroup: str) -> list[Path]:
    """The files by which a process enters the cgroup, which is created if missing. Raises FileNotFoundError if the
    pod has no cgroup."""
    return cgroups.make_leaf(f"{container_cgroup.rpartition('/')[0]}/{GROUP}")


def joined(paths: Sequence[Path]) -> str:
    """As the runtime's script reads them from an environment variable."""
    return ":".join(map(str, paths))

"""The processes of a pod's containers on the node."""

from __future__ import annotations

from collections.abc import Iterable

from alcove.agent.podkey import PodKey
from alcove.agent.runtime.base import ContainerId, ContainerRuntime, RuntimeFailure


async def first_process(runtime: ContainerRuntime, key: PodKey, name: str, ids: Iterable[ContainerId]) -> int:
    """The host's pid of the first process of the newest container of this name; 0 if it has none on the host.
    `ids` are the pod's containers."""
    prefix = f"{key.directory_name}.{name}."
    own = [each for each in ids if each.startswith(prefix)]
    if not own:
        return 0
    try:
        newest = await runtime.status(max(own, key=lambda each: int(each.rpartition(".")[2])))
    except RuntimeFailure:
        return 0
    return newest.process

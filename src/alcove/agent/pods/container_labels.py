"""What is written on every container, so that an agent that starts anew knows whose it is."""

from collections.abc import Mapping

from msgspec import Struct

from alcove.agent.podkey import PodKey
from alcove.agent.runtime.base import ContainerId
from alcove.api.ids import TenantId
from alcove.client.keys import PlaneId

_PREFIX = "alcove.dev/"
_FIELDS = ("plane", "tenant", "namespace", "name", "uid")


class ContainerMark(Struct, frozen=True):
    key: PodKey
    container: str
    """Empty for the sandbox."""
    attempt: int
    image: str = ""
    image_id: str = ""
    term_message: str = ""
    """The file on the node where the container may write its last words."""
    stop_signal: str = ""
    digest: str = ""
    """Of its image, as the node keeps it."""

    def labels(self) -> dict[str, str]:
        own = {
            "container": self.container,
            "attempt": str(self.attempt),
            "image": self.image,
            "image-id": self.image_id,
            "message": self.term_message,
            "stop-signal": self.stop_signal,
            "digest": self.digest,
        }
        named = {field: str(getattr(self.key, field)) for field in _FIELDS}
        return {_PREFIX + field: value for field, value in (named | own).items() if value}


def read(labels: Mapping[str, str]) -> ContainerMark | None:
    """None: it is not a pod's."""
    told = {name.removeprefix(_PREFIX): value for name, value in labels.items() if name.startswith(_PREFIX)}
    if "uid" not in told or not told.get("attempt", "").isdigit():
        return None
    key = PodKey(
        PlaneId(told.get("plane", "")),
        TenantId(told.get("tenant", "")),
        told.get("namespace", ""),
        told.get("name", ""),
        told["uid"],
    )
    return ContainerMark(
        key,
        told.get("container", ""),
        int(told["attempt"]),
        told.get("image", ""),
        told.get("image-id", ""),
        told.get("message", ""),
        told.get("stop-signal", ""),
        told.get("digest", ""),
    )


def sandbox_id(key: PodKey, attempt: int) -> ContainerId:
    return ContainerId(f"{key.directory_name}.{attempt}")


def container_id(key: PodKey, name: str, attempt: int) -> ContainerId:
    """Names have no dots: no container's id is a sandbox's."""
    return ContainerId(f"{key.directory_name}.{name}.{attempt}")

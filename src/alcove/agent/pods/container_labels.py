"""The labels of every container in the runtime, by which a restarted agent knows which pod it belongs to."""

from collections.abc import Mapping

from msgspec import Struct

from alcove.agent.podkey import PodKey
from alcove.agent.runtime.base import ContainerId
from alcove.agent.runtime.users import User
from alcove.api.ids import TenantId
from alcove.client.keys import PlaneId

_PREFIX = "alcove.io/"
_FIELDS = ("plane", "tenant", "namespace", "name", "uid")


class ContainerMark(Struct, frozen=True):
    key: PodKey
    container: str
    """Empty for the sandbox."""
    attempt: int
    image: str = ""
    image_id: str = ""
    term_message: str = ""
    """The node's file for the container's termination message."""
    stop_signal: str = ""
    digest: str = ""
    """The image's digest in the node's image store."""
    user: User | None = None

    def labels(self) -> dict[str, str]:
        container_fields = {
            "container": self.container,
            "attempt": str(self.attempt),
            "image": self.image,
            "image-id": self.image_id,
            "message": self.term_message,
            "stop-signal": self.stop_signal,
            "digest": self.digest,
            "user": _user_text(self.user),
        }
        pod_fields = {field: str(getattr(self.key, field)) for field in _FIELDS}
        return {_PREFIX + field: value for field, value in (pod_fields | container_fields).items() if value}


def read(labels: Mapping[str, str]) -> ContainerMark | None:
    """None if the labels are not those of a pod's container."""
    fields = {name.removeprefix(_PREFIX): value for name, value in labels.items() if name.startswith(_PREFIX)}
    if "uid" not in fields or not fields.get("attempt", "").isdigit():
        return None
    key = PodKey(
        PlaneId(fields.get("plane", "")),
        TenantId(fields.get("tenant", "")),
        fields.get("namespace", ""),
        fields.get("name", ""),
        fields["uid"],
    )
    return ContainerMark(
        key,
        fields.get("container", ""),
        int(fields["attempt"]),
        fields.get("image", ""),
        fields.get("image-id", ""),
        fields.get("message", ""),
        fields.get("stop-signal", ""),
        fields.get("digest", ""),
        _user(fields.get("user", "")),
    )


def _user_text(user: User | None) -> str:
    """`uid gid group …`; empty if it is not known."""
    return " ".join(map(str, (user.uid, user.gid, *user.groups))) if user is not None else ""


def _user(text: str) -> User | None:
    ids = [int(each) for each in text.split() if each.isdigit()]
    return User(ids[0], ids[1], tuple(ids[2:])) if len(ids) > 1 else None


def sandbox_id(key: PodKey, attempt: int) -> ContainerId:
    return ContainerId(f"{key.directory_name}.{attempt}")


def container_id(key: PodKey, name: str, attempt: int) -> ContainerId:
    """Container names have no dots, so a container's id never equals a sandbox's."""
    return ContainerId(f"{key.directory_name}.{name}.{attempt}")

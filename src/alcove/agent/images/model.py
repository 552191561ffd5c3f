"""What is known of an image on this node, and what can go wrong with one.

ImageFailure
├── ImageMissing    not on this node, and nobody may fetch it
├── NoImage         a container cannot have its image now; with the reason that its status shows
├── PullFailed      the registry or archive did not give it; the message is the tool's
└── ToolMissing     what fetches or unpacks images is not installed
"""

from pathlib import Path

from msgspec import Struct

from alcove.agent.images.references import repository
from alcove.agent.runtime.config import ImageConfig
from alcove.agent.runtime.users import Accounts


class ImageFailure(Exception):
    pass


class ImageMissing(ImageFailure):
    pass


class ImageUnavailable(ImageFailure):
    def __init__(self, reason: str, message: str, retry_seconds: float = 10.0) -> None:
        super().__init__(message)
        self.reason = reason
        """ErrImagePull, ImagePullBackOff, ErrImageNeverPull or InvalidImageName."""
        self.message = message
        self.retry_seconds = retry_seconds
        """Asking earlier is no use."""


class PullFailed(ImageFailure):
    pass


class ToolMissing(ImageFailure):
    pass


class Image(Struct, frozen=True):
    digest: str
    """`sha256:…` of what the image is; the same for the same image under any name."""
    names: tuple[str, ...]
    config: ImageConfig
    rootfs: Path
    size_bytes: int
    remote_digest: str = ""
    """What its registry calls it; empty for what came from none."""

    def id_as(self, name: str) -> str:
        """What a container's status calls it: `repository@digest`."""
        return f"{repository(name)}@{self.remote_digest or self.digest}"

    def accounts(self) -> Accounts:
        return Accounts(_text(self.rootfs, "etc/passwd"), _text(self.rootfs, "etc/group"))


_ACCOUNT_BYTES_MAX = 1 << 20


def _text(rootfs: Path, name: str) -> str:
    """A file of the image itself: never one of the node's that a link in the image points to."""
    path = rootfs
    for part in name.split("/"):
        path = path / part
        if path.is_symlink():
            return ""
    try:
        with path.open("rb") as file:
            return file.read(_ACCOUNT_BYTES_MAX).decode(errors="replace")
    except OSError:
        return ""

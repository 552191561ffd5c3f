"""An image on this node, and the errors of images.

ImageFailure
├── ImageMissing       not on this node
├── ImageUnavailable   a container cannot get its image now; has the reason for the container's status
├── PullFailed         copying from the registry or archive failed; has the tool's message
└── ToolMissing        a program that fetches or unpacks images is not installed
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
        """The earliest time at which a retry can succeed."""


class PullFailed(ImageFailure):
    pass


class ToolMissing(ImageFailure):
    pass


class Image(Struct, frozen=True):
    digest: str
    """`sha256:…` of the image's content, independent of its names."""
    names: tuple[str, ...]
    config: ImageConfig
    rootfs: Path
    size_bytes: int
    remote_digest: str = ""
    """The digest in its registry; empty if it did not come from one."""

    def id_as(self, name: str) -> str:
        """The `imageID` in a container's status: `repository@digest`."""
        return f"{repository(name)}@{self.remote_digest or self.digest}"

    def accounts(self) -> Accounts:
        return Accounts(_text(self.rootfs, "etc/passwd"), _text(self.rootfs, "etc/group"))


_ACCOUNT_BYTES_MAX = 1 << 20


def _text(rootfs: Path, name: str) -> str:
    """The text of a file of the image; empty if missing. Symbolic links are not followed, as they may lead to
    files of the node."""
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

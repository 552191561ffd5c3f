"""An image on this node, and the errors of images.

ImageFailure
├── ImageMissing       not on this node
├── ImageUnavailable   a container cannot get its image now; has the reason for the container's status
├── PullFailed         copying from the registry or archive failed; has the tool's message
│   └── TooMuchForTenant   the tenant's images take its share of the disk already
└── ToolMissing        a program that fetches or unpacks images is not installed
"""

from pathlib import Path

from msgspec import Struct

from alcove.agent import untrusted_files
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


class TooMuchForTenant(PullFailed):
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


ACCOUNT_BYTES_MAX = 1 << 20
"""How much of an image's passwd and group files is read; users and groups after that do not exist."""


def _text(rootfs: Path, name: str) -> str:
    """The text of a file of the image; empty if it is missing or a link, which may lead to files of the
    node."""
    content = untrusted_files.read_head(rootfs, name, ACCOUNT_BYTES_MAX)
    return (content or b"").decode(errors="replace")

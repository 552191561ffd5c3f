"""What an operator does to a node's images from a shell, beside the running agent: it sees the change at once.

`folder` is the agent's `DIR/images`.
"""

from pathlib import Path

from alcove.agent.images.model import Image, PullFailed
from alcove.agent.images.store import ImageStore


async def load(folder: Path, archive: Path) -> list[Image]:
    """The images of an archive (`docker save`, OCI), from now on for every tenant's pods on the node.
    ImageFailure says why not."""
    images = await ImageStore(folder).load(archive)
    if unnamed := [image.digest for image in images if not image.names]:
        raise PullFailed(f"{archive.name} has images without a name: {', '.join(unnamed)}")
    return images


def list_images(folder: Path) -> list[Image]:
    """All on the node, by name."""
    return sorted(ImageStore(folder).all(), key=lambda image: image.names)


def remove(folder: Path, name: str) -> Image:
    """What was loaded under that name is no longer everybody's; the agent removes it once nothing uses it.
    ImageMissing, BadImageName."""
    return ImageStore(folder).forget_shared(name)

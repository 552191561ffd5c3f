"""An operator's commands on a node's images. They may run beside the agent, which uses the result
immediately.

`directory` is the agent's `DIR/images`.
"""

from pathlib import Path

from alcove.agent.images.model import Image, PullFailed
from alcove.agent.images.store import ImageStore


async def load(directory: Path, archive: Path) -> list[Image]:
    """Loads the images of an archive (`docker save`, OCI) for all tenants' pods on the node. Raises
    ImageFailure."""
    images = await ImageStore(directory).load(archive)
    if unnamed := [image.digest for image in images if not image.names]:
        raise PullFailed(f"{archive.name} contains images without a name: {', '.join(unnamed)}")
    return images


def list_images(directory: Path) -> list[Image]:
    """All images on the node, sorted by name."""
    return sorted(ImageStore(directory).all(), key=lambda image: image.names)


def remove(directory: Path, name: str) -> Image:
    """Removes the name from the images of all tenants; the agent deletes the image once it is not in use.
    Raises ImageMissing, InvalidImageName."""
    return ImageStore(directory).forget_shared(name)

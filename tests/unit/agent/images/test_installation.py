"""The image of the node's own installation has what the API server needs, and nothing else of the node."""

import sys
from pathlib import Path

from alcove.agent.images import installation
from alcove.agent.images.store import ImageStore
from alcove.api.ids import SYSTEM
from alcove.api.schema import kubernetes_schemas


def test_an_installation_becomes_an_image_of_ring0(tmp_path: Path) -> None:
    store = ImageStore(tmp_path / "images")
    image = store.add_installation()
    assert store.add_installation() == image, "built once"
    assert store.find(SYSTEM, installation.NAME).digest == image.digest
    needed = (
        Path(sys.executable),
        Path(installation.__file__),
        *kubernetes_schemas.package_files(),
        Path(sys.modules["msgspec"].__file__ or ""),
    )
    for path in needed:
        assert (image.rootfs / path.relative_to("/")).is_file(), path
    assert any(path.name.startswith("libc.so") for path in image.rootfs.rglob("libc.so*")), "linked libraries"
    names = {path.name for path in image.rootfs.rglob("site-packages/*")}
    assert "pip" not in names and "numpy" not in names
    assert sorted(each.name for each in (image.rootfs / "etc").iterdir()) == [
        "group",
        "nsswitch.conf",
        "passwd",
    ]

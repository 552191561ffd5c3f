"""The image of the node's own installation has what the API server needs, and nothing else of the node."""

import sys
from pathlib import Path

import google.protobuf  # type: ignore[import-untyped]
import pytest

from alcove.agent.images import etcd_image, installation
from alcove.agent.images.model import ToolMissing
from alcove.agent.images.store import ImageStore
from alcove.api.ids import SYSTEM
from alcove.api.schema import kubernetes_schemas
from alcove.testing import etcd


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
        *(Path(path, "descriptor.py") for path in google.protobuf.__path__),  # Of a namespace package.
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


@pytest.mark.skipif(bool(etcd.lacking()), reason=etcd.lacking() or "-")
def test_the_nodes_etcd_becomes_an_image_of_ring0(tmp_path: Path) -> None:
    store = ImageStore(tmp_path / "images")
    image = store.add_etcd()
    assert store.find(SYSTEM, etcd_image.NAME).digest == image.digest == store.add_etcd().digest
    assert (image.rootfs / "bin/etcd").stat().st_size == etcd_image.find().stat().st_size


def test_a_node_without_etcd_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolMissing, match="etcd is not installed on this node"):
        ImageStore(tmp_path / "images").add_etcd()

"""An operator's commands on a store that a running agent uses."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from alcove.agent.images import builtin, commands
from alcove.agent.images.model import ImageMissing, PullFailed
from alcove.agent.images.references import path_of
from alcove.agent.images.store import ImageStore, node_status_images
from alcove.api.ids import TenantId

ACME = TenantId("acme")
needs_tools = pytest.mark.skipif(
    os.geteuid() != 0 or any(shutil.which(name) is None for name in ("skopeo", "umoci", "busybox")),
    reason="needs root, skopeo, umoci and busybox",
)


def _archive(folder: Path, kind: str, name: str) -> Path:
    layout, path = folder / "layout", folder / "x.tar"
    for command in (
        ["umoci", "init", "--layout", layout],
        ["umoci", "new", "--image", f"{layout}:v1"],
        ["skopeo", "copy", f"oci:{layout}:v1", f"{kind}:{path}{name}"],
    ):
        subprocess.run([str(word) for word in command], check=True, capture_output=True)
    return path


@needs_tools
@pytest.mark.root
async def test_what_is_loaded_is_seen_by_a_running_agent(tmp_path: Path) -> None:
    archive = _archive(tmp_path, "docker-archive", ":shop/web:v1")
    agent = ImageStore(tmp_path / "images")
    built_in = agent.add_builtin()
    [loaded] = await commands.load(tmp_path / "images", archive)
    assert agent.find(ACME, "shop/web:v1") == loaded
    names = [path_of(name) for image in commands.list_images(tmp_path / "images") for name in image.names]
    assert names == [builtin.NAME, "shop/web:v1"]
    [largest, smallest] = node_status_images(agent.all())
    assert largest["sizeBytes"] == built_in.size_bytes
    assert smallest["names"] == [loaded.names[0], loaded.id_as(loaded.names[0])]
    assert node_status_images(agent.all(), count_max=1) == [largest]
    assert await agent.collect([], 0, 0) == []
    commands.remove(tmp_path / "images", loaded.names[0])
    with pytest.raises(ImageMissing):
        commands.remove(tmp_path / "images", loaded.names[0])
    with pytest.raises(ImageMissing):
        agent.find(ACME, "shop/web:v1")
    assert await agent.collect([loaded.digest], 0, 0) == []
    assert await agent.collect([], 10**12, 0) == [loaded.digest]
    assert agent.all() == [built_in]


@needs_tools
@pytest.mark.root
async def test_an_archive_whose_images_have_no_name(tmp_path: Path) -> None:
    path = _archive(tmp_path, "oci-archive", "")
    with pytest.raises(PullFailed, match="without a name"):
        await commands.load(tmp_path / "images", path)

"""`alcove image …` on the folders of a machine's nodes."""

import io
import tarfile
from pathlib import Path

import orjson
import pytest
from typer.testing import CliRunner, Result

from alcove.agent.images import builtin
from alcove.agent.images.model import ToolMissing
from alcove.agent.images.store import ImageStore
from alcove.processes.main import app


def alcove(*words: str) -> Result:
    return CliRunner().invoke(app, list(words))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    for name in ("node-1", "node-2"):
        (tmp_path / "nodes" / name).mkdir(parents=True)
    return tmp_path


def test_every_nodes_images_are_listed(data: Path) -> None:
    try:
        ImageStore(data / "nodes" / "node-2" / "images").add_builtin()
    except ToolMissing as error:
        pytest.skip(str(error))
    done = alcove("image", "list", "--data", str(data), "-o", "json")
    assert done.exit_code == 0, done.output
    rows = orjson.loads(done.stdout)
    assert [(row["image"], row["node"]) for row in rows] == [(builtin.NAME, "node-2")]
    assert builtin.NAME in alcove("image", "list", "--data", str(data)).stdout


def test_a_file_that_is_no_archive_is_reported(data: Path) -> None:
    archive = data / "x.tar"
    with tarfile.open(archive, "w") as tar:
        tar.addfile(tarfile.TarInfo("readme"), io.BytesIO())
    done = alcove("image", "load", str(archive), "--data", str(data))
    assert done.exit_code == 1 and "not an image archive" in done.stderr
    missing = alcove("image", "load", str(archive), "--data", str(data), "--node", "node-9")
    assert missing.exit_code == 5 and "node-1, node-2" in missing.stderr
    assert alcove("image", "load", str(data / "none.tar"), "--data", str(data)).exit_code == 2


def test_without_nodes_here_there_are_no_images(tmp_path: Path) -> None:
    done = alcove("image", "list", "--data", str(tmp_path))
    assert done.exit_code == 3 and "alcove up" in done.stderr


def test_a_loaded_image_is_let_go_by_name(data: Path) -> None:
    done = alcove("image", "remove", "example.org/none:1", "--data", str(data))
    assert done.exit_code == 5 and "node-1" in done.stderr

"""A node uses the object that came with the package, and compiles one only where that one is refused."""

import shutil
from pathlib import Path

import pytest

from alcove.dataplane import build
from alcove.testing.nodes import Lab

pytestmark = pytest.mark.alone


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The sources as a wheel has them, in a folder where an object can be put beside them."""
    folder = tmp_path / "bpf"
    shutil.copytree(build.sources_folder(), folder)
    monkeypatch.setattr(build, "sources_folder", lambda: folder)
    return folder


def test_without_a_compiler_the_shipped_object_is_used(
    one_node: Lab, package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build.compile_object(package, package / build.object_name(package))
    (node,) = one_node.nodes
    node.plane.close()
    node.plane.pins.remove()
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(build, "caches", lambda: [tmp_path / "cache"])
    node.start()
    assert not list(tmp_path.glob("cache/*.o"))


def test_an_object_that_does_not_load_is_compiled_here(
    one_node: Lab, package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (package / build.object_name(package)).write_bytes(b"\x7fELF, but of no use here")
    (node,) = one_node.nodes
    node.plane.close()
    node.plane.pins.remove()
    monkeypatch.setattr(build, "caches", lambda: [tmp_path / "cache"])
    node.start()
    assert [path.name for path in tmp_path.glob("cache/*.o")] == [build.object_name(package)]

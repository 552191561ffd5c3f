"""The build is cached by content, atomic, and reports errors."""

import shutil
from pathlib import Path

import pytest

from alcove.dataplane import build
from alcove.dataplane.errors import BuildFailed


@pytest.fixture(autouse=True)
def compiler() -> None:
    try:
        build.find_compiler()
    except BuildFailed as error:
        pytest.skip(str(error))


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Sources that are compiled in no time, in the place of the real ones."""
    folder = tmp_path / "small"
    folder.mkdir()
    (folder / "alcove.c").write_text("int one;\n")
    monkeypatch.setattr(build, "sources_folder", lambda: folder)
    return folder


@pytest.mark.usefixtures("small")
def test_the_same_sources_are_the_same_object(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    first = build.build(cache)
    stamp = first.stat().st_mtime_ns
    assert build.build(cache) == first
    assert first.stat().st_mtime_ns == stamp


def test_another_source_is_another_name(tmp_path: Path) -> None:
    (tmp_path / "alcove.c").write_text("int one;\n")
    before = build.digest(tmp_path)
    (tmp_path / "alcove.c").write_text("int two;\n")
    assert build.digest(tmp_path) != before


def test_a_failed_compilation_is_an_error_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "alcove.c").write_text("this is not C\n")
    with pytest.raises(BuildFailed, match=r"alcove\.c"):
        build.compile_object(tmp_path, tmp_path / "out.o")
    assert [path.name for path in tmp_path.iterdir()] == ["alcove.c"]


def test_a_folder_that_others_may_write_is_no_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shared, private = tmp_path / "shared", tmp_path / "private"
    shared.mkdir()
    shared.chmod(0o777)
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setattr(build, "caches", lambda: [blocked / "below", shared, private])
    assert build.default_cache() == private
    monkeypatch.setattr(build, "caches", lambda: [shared])
    with pytest.raises(BuildFailed, match="no writable directory for compiled programs"):
        build.default_cache()


def test_without_a_compiler_the_error_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BuildFailed, match=r"clang not found, .*: install clang and libbpf-dev"):
        build.build(tmp_path)


def test_a_shipped_object_of_other_sources_is_not_used(small: Path) -> None:
    shipped = small / build.object_name(small)
    build.compile_object(small, shipped)
    assert build.shipped_object() == build.find_object() == shipped
    (small / "alcove.c").write_text("int two;\n")
    assert build.shipped_object() is None


@pytest.mark.slow
def test_an_object_is_the_same_wherever_it_is_compiled(tmp_path: Path) -> None:
    """Nothing of the machine that built a release is in it."""
    made = []
    for name in ("one", "another"):
        folder = tmp_path / name
        shutil.copytree(build.sources_folder(), folder)
        build.compile_object(folder, tmp_path / f"{name}.o")
        made.append((tmp_path / f"{name}.o").read_bytes())
    assert made[0] == made[1]
    assert str(tmp_path).encode() not in made[0]

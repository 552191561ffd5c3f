"""Building: cached by content, whole or not at all, and honest about what is wrong."""

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


def test_the_same_sources_are_the_same_object(tmp_path: Path) -> None:
    first = build.build(tmp_path)
    stamp = first.stat().st_mtime_ns
    assert build.build(tmp_path) == first
    assert first.stat().st_mtime_ns == stamp


def test_another_source_is_another_name(tmp_path: Path) -> None:
    (tmp_path / "alcove.c").write_text("int one;\n")
    before = build.digest(tmp_path)
    (tmp_path / "alcove.c").write_text("int two;\n")
    assert build.digest(tmp_path) != before


def test_what_does_not_compile_says_so_and_leaves_nothing(tmp_path: Path) -> None:
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
    with pytest.raises(BuildFailed, match="no folder for compiled programs"):
        build.default_cache()


def test_without_a_compiler_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BuildFailed, match="there is no clang: install clang and libbpf-dev"):
        build.build(tmp_path)

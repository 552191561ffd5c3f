"""What is shipped was built from the sources that are committed beside it."""

import gzip
import hashlib
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from alcove.console.files import INDEX, STATIC

CONSOLE = Path(__file__).parents[3] / "console"
FIRST_LOAD_BYTES_MAX = 600 * 1024
"""Compressed: the page, its style and its script, without what is loaded when it is needed."""

pytestmark = pytest.mark.skipif(not CONSOLE.is_dir(), reason="needs the sources of the console")


def test_the_files_were_built_from_these_sources() -> None:
    names = [str(path.relative_to(CONSOLE)) for path in (CONSOLE / "src").rglob("*") if path.is_file()]
    names += ["build.mjs", "package.json", "package-lock.json", "tsconfig.json"]
    digest = hashlib.sha256()
    for name in sorted(names):
        digest.update(f"{name}\0".encode() + (CONSOLE / name).read_bytes())
    assert (STATIC / "sources.sha256").read_text().strip() == digest.hexdigest(), (
        "the console's sources have changed: run `make console` and commit what it writes"
    )


@pytest.mark.skipif(
    shutil.which("node") is None or not (CONSOLE / "node_modules").is_dir(),
    reason="needs node and console/node_modules",
)
def test_building_again_gives_the_same_files(tmp_path: Path) -> None:
    subprocess.run(["node", "build.mjs", str(tmp_path)], cwd=CONSOLE, check=True, timeout=200)
    built = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert built == {path.name: path.read_bytes() for path in STATIC.iterdir()}


def test_a_page_loads_only_its_own_files_and_not_many_bytes() -> None:
    page = (STATIC / INDEX).read_text()
    addresses = re.findall(r'(?:src|href)="([^"]+)"', page)
    names = [each.removeprefix("/console/") for each in addresses]
    assert all(each.startswith("/console/") for each in addresses)
    assert all((STATIC / name).is_file() for name in names) and "app.js" in names
    assert "style=" not in page and not re.search(r"\bon\w+=", page), (
        "inline code is forbidden by the page's policy"
    )
    # With what the script imports at once; what it loads later is in `import()`.
    names += re.findall(r'(?:from|import)"\./([\w-]+\.js)"', (STATIC / "app.js").read_text())
    size = sum(len(gzip.compress((STATIC / name).read_bytes())) for name in (*names, INDEX))
    assert size < FIRST_LOAD_BYTES_MAX


def test_the_lock_names_no_registry() -> None:
    assert '"resolved"' not in (CONSOLE / "package-lock.json").read_text()


def test_nothing_stored_becomes_markup() -> None:
    """The page's policy forbids it as well; the sources do not even try."""
    for path in (CONSOLE / "src").rglob("*.ts*"):
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", path.read_text()
        ), path


def test_every_language_has_its_own_texts() -> None:
    english, german = ((CONSOLE / f"src/text/{each}.ts").read_text() for each in ("en", "de"))
    keys = re.compile(r"^  (\w+):", re.M)
    assert keys.findall(english) == keys.findall(german)

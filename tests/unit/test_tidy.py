"""House rules that no linter knows."""

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = sorted((ROOT / "src").rglob("*.py"))
UNIT_TESTS = sorted((ROOT / "tests" / "unit").rglob("test_*.py"))
ABOUT_THE_REPOSITORY = {
    "test_architecture.py",
    "test_deploy.py",
    "test_limits.py",
    "test_packages.py",
    "test_tidy.py",
}
"""Directly in tests/unit: they test files of the repository rather than a module."""
LINES_MAX = 450
FORBIDDEN_NAMES = {"utils", "util", "common", "helpers", "helper", "manager", "misc"}


def tracked() -> list[Path]:
    completed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return [ROOT / name for name in completed.stdout.split("\0") if name and (ROOT / name).is_file()]


def test_a_module_says_what_it_owns_and_stays_small() -> None:
    for path in SOURCE:
        text = path.read_text()
        assert not text.strip() or text.lstrip().startswith(('"""', 'r"""')), (
            f"{path}: begin with a docstring: what it owns, what it promises"
        )
        assert text.count("\n") <= LINES_MAX, f"{path}: more than {LINES_MAX} lines: split it by concept"
        assert path.stem not in FORBIDDEN_NAMES, f"{path}: name it after its noun"


def test_nothing_is_left_for_later() -> None:
    left = [path for path in SOURCE if re.search(r"\b(TODO|FIXME|XXX|HACK)\b", path.read_text())]
    assert not left


def test_a_unit_test_is_named_after_what_it_tests() -> None:
    for path in UNIT_TESTS:
        relative = path.relative_to(ROOT / "tests" / "unit")
        if str(relative) in ABOUT_THE_REPOSITORY:
            continue
        source = ROOT / "src" / "alcove" / relative.parent
        words = path.stem.removeprefix("test_").split("_")
        names = ["_".join(words[:count]) for count in range(1, len(words) + 1)]
        assert any(
            (source / f"{name}.py").is_file() or (source / name / "__init__.py").is_file() for name in names
        ), (
            f"{path}: name it test_X.py or test_X_<aspect>.py after a module or package X of {source.relative_to(ROOT)}"
        )


def test_only_the_http_package_parses_http() -> None:
    users = [path for path in SOURCE if re.search(r"^\s*(import|from) httptools\b", path.read_text(), re.M)]
    assert [path.relative_to(ROOT / "src" / "alcove") for path in users] == [Path("http/parsing.py")]


def test_no_pipe_is_given_to_the_event_loop() -> None:
    """uvloop closes its descriptor twice: the second time it may be a file that another thread has just opened."""
    users = [path for path in SOURCE if re.search(r"\bconnect_(read|write)_pipe\(", path.read_text())]
    assert users == []


def test_no_path_of_a_developers_machine() -> None:
    own = Path(__file__)
    for path in tracked():
        if path == own or path.suffix in {".png", ".svg"}:
            continue
        text = path.read_text(errors="replace")
        assert not re.search(r"(?<![\w.])/(root|work)/(?!\.)", text), path

"""`make test` tries failed tests again: only where every test had its chance."""

import subprocess
import sys
from pathlib import Path

import pytest

GOOD = "def test_good(): pass\n"
BAD = "def test_bad(): raise AssertionError\n"
BROKEN = "raise RuntimeError('a check failed')\n"


def run(folder: Path) -> int:
    words = ["-p", "alcove.testing.collection", "-p", "no:cacheprovider", "-c", "/dev/null", "--rootdir", "."]
    command = [sys.executable, "-m", "pytest", "-q", *words, "-n", "2", "--dist", "loadfile", "."]
    return subprocess.run(command, cwd=folder, capture_output=True, timeout=60).returncode


@pytest.mark.parametrize(
    ("other", "status"),
    [(BAD, pytest.ExitCode.TESTS_FAILED), (BROKEN, pytest.ExitCode.INTERRUPTED)],
    ids=["bad", "broken"],
)
def test_a_file_that_cannot_be_collected_is_more_than_a_failed_test(
    tmp_path: Path, other: str, status: pytest.ExitCode
) -> None:
    (tmp_path / "test_one.py").write_text(GOOD)
    (tmp_path / "test_two.py").write_text(other)
    assert run(tmp_path) == status

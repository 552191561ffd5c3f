import os
from pathlib import Path

import pytest

from alcove.processes.cores import default_workers, usable_cores


@pytest.mark.parametrize(
    ("text", "limit"), [("max 100000", None), ("150000 100000", 1), ("50000 100000", 1), ("", None)]
)
def test_a_containers_limit_counts(text: str, limit: int | None, tmp_path: Path) -> None:
    (tmp_path / "cpu.max").write_text(text)
    cores = len(os.sched_getaffinity(0))
    assert usable_cores(tmp_path / "cpu.max") == (limit or cores)
    assert usable_cores(tmp_path / "missing") == cores


@pytest.mark.parametrize(("cores", "workers"), [(1, 1), (2, 1), (3, 2), (16, 15)])
def test_one_core_is_left_to_everything_else(cores: int, workers: int) -> None:
    assert default_workers(cores) == workers

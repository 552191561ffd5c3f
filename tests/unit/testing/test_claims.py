import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from alcove.testing.claims import PORTS, claim, free_port


def test_no_two_callers_get_the_same_port() -> None:
    with ThreadPoolExecutor(8) as threads:
        ports = list(threads.map(lambda _number: free_port(), range(50)))
    assert len(set(ports)) == 50
    assert set(ports) <= set(PORTS)


def test_numbers_come_in_turn_but_for_those_that_are_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert [claim("it", range(3, 7), lambda number: number != 5) for _ in range(4)] == [3, 4, 6, 3]
    with pytest.raises(RuntimeError):
        claim("it", range(3, 7), lambda _number: False)

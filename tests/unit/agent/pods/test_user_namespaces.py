"""On which nodes pods can have a user namespace, and the error on others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from alcove.agent.pods.executor import PodSetupError
from alcove.agent.pods.user_namespaces import can_map, check, inaccessible_directories


@pytest.fixture
def data() -> Iterator[Path]:
    with TemporaryDirectory(prefix="alcove-passing-") as name:
        Path(name).chmod(0o711)
        made = Path(name) / "a" / "b"
        made.mkdir(parents=True, mode=0o711)
        yield made


def test_a_directory_that_others_can_enter(data: Path) -> None:
    assert inaccessible_directories(data) == []
    assert can_map("crun", data)
    assert not can_map("runc", data)
    check("crun", data, is_ring0=False)


def test_every_folder_that_is_shut_is_named_to_ring0_only(data: Path) -> None:
    for each in (data, data.parent):
        each.chmod(0o700)
    assert inaccessible_directories(data) == [data.parent, data]
    assert not can_map("crun", data)
    with pytest.raises(PodSetupError, match=f"chmod o\\+x {data.parent} {data}"):
        check("crun", data, is_ring0=True)
    with pytest.raises(PodSetupError) as raised:
        check("crun", data, is_ring0=False)
    assert str(data.parent) not in str(raised.value)


def test_a_runtime_that_cannot(data: Path) -> None:
    with pytest.raises(PodSetupError, match="RuntimeClass with handler crun"):
        check("runc", data, is_ring0=False)

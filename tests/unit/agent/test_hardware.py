"""The capacity of nodes."""

from pathlib import Path

from alcove.agent import hardware


def test_nodes_of_one_machine_promise_no_more_than_it_has(tmp_path: Path) -> None:
    whole = hardware.read(tmp_path, None)
    part = hardware.part_of(whole, 3)
    assert part.kernel == whole.kernel
    for field in ("cpu_milli", "memory_bytes", "disk_bytes"):
        assert 0 < getattr(part, field) * 3 <= getattr(whole, field)
    assert hardware.part_of(whole, 1) == whole


def test_apparmor_is_there_if_the_kernel_says_so(tmp_path: Path) -> None:
    assert not hardware.has_apparmor(tmp_path)
    parameters = tmp_path / "sys/module/apparmor/parameters"
    parameters.mkdir(parents=True)
    for text, expected in (("Y\n", True), ("N\n", False)):
        (parameters / "enabled").write_text(text)
        assert hardware.has_apparmor(tmp_path) is expected

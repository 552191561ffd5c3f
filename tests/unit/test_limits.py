"""docs/limits.md names every pool and every bound on what tenants send."""

import importlib
import ipaddress
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from alcove.agent.network import map_shares
from alcove.dataplane.maps import MapName

ROOT = Path(__file__).parents[2]


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """docs/limits.py, which is not in a package."""
    monkeypatch.syspath_prepend(ROOT / "docs")
    return importlib.import_module("limits")


def test_a_bound_of_the_code_is_on_the_page_or_has_a_reason_not_to_be(limits: ModuleType) -> None:
    assert limits.missing() == [], (
        "add rows to docs/limits.md.in and run `make docs`, or say in docs/limits_internal.py why not"
    )


def test_the_page_names_no_constant_that_is_gone(limits: ModuleType) -> None:
    assert limits.unknown() == []


def test_a_bound_is_not_both_on_the_page_and_internal(limits: ModuleType) -> None:
    assert {*limits.on_page()} & {*limits.internal()} == set()


def test_a_name_that_no_constant_has_is_an_error(limits: ModuleType) -> None:
    for name in (
        "apiserver.flow.NO_MAX",
        "apiserver.flow.FlowLimits.none_max",
        "nothing.HERE_MAX",
        "bpf.none",
    ):
        with pytest.raises(limits.UnknownConstant):
            limits.value_of(name)


def test_bounds_are_found_however_they_are_written(
    limits: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "SOURCE", tmp_path)
    module = tmp_path / "agent" / "new.py"
    module.parent.mkdir()
    module.write_text(
        "A_MAX = 1\nB_MAX: int = 2\nC, D_MAX = 3, 4\n_E_MAX_BYTES = 5\nF_MOST = 6\nOTHER = 7\n"
        "class Settings:\n    g_max: int = 8\n    h_max: int\n    other: int = 9\n"
    )
    found = {name.removeprefix("agent.new.") for name in limits.bounds_in(module)}
    assert found == {"A_MAX", "B_MAX", "D_MAX", "_E_MAX_BYTES", "F_MOST", "Settings.g_max"}


def test_the_size_of_every_bpf_map_is_found(limits: ModuleType) -> None:
    sources = "".join(path.read_text() for path in sorted((ROOT / "src/alcove/bpf").rglob("*.[ch]")))
    names = re.findall(r"(\w+) SEC\(\"\.maps\"\)", sources)
    assert sorted(limits.map_sizes()) == sorted(names)


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("a.ENTRIES_MAX", 50_000, "50,000"),
        ("a.TRIES_MAX", 64.0, "64"),
        ("a.BODY_BYTES_MAX", 3 << 20, "3 MiB"),
        ("a.ANSWER_BYTES_MAX", 65_535, "65,535 bytes"),
        ("a.WAIT_SECONDS_MAX", 90.0, "90 s"),
        ("a.WAIT_SECONDS_MAX", 1.5, "1.5 s"),
        ("a.WAIT_SECONDS_MAX", 7_200, "2 h"),
        ("a.TURN_SECONDS", 0.004, "4 ms"),
        ("seconds.DISK_SHARE_MIN", 0.05, "5%"),
        ("a.PORTS", range(30_000, 32_768), "30000 to 32767 (2,768)"),
        ("a.Settings.nat_ports", (20_000, 29_999), "20000 to 29999 (10,000)"),
        ("a.RANGE", ipaddress.IPv4Network("100.96.0.0/11"), "100.96.0.0/11 (2,097,152 addresses)"),
    ],
)
def test_a_value_is_shown_with_its_unit(limits: ModuleType, name: str, value: Any, text: str) -> None:
    assert limits.shown(name, value) == text


def test_every_row_has_all_cells() -> None:
    columns = 0
    for line in (ROOT / "docs" / "limits.md").read_text().splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] if line.startswith("|") else []
        if cells and columns:
            assert len(cells) == columns and all(cells), line
        columns = len(cells)


def test_every_table_of_the_data_plane_has_room_for_the_shares(limits: ModuleType) -> None:
    """Shares together leave a quarter of each table to changes, which add before they remove."""
    pools = {
        "networks": map_shares.NETWORKS,
        "routes": map_shares.ROUTES,
        "endpoints": map_shares.ENDPOINTS,
        "services": map_shares.SERVICE_ENTRIES,
        "backends": map_shares.SERVICE_ENTRIES,
        "members": map_shares.SERVICE_ENTRIES,
        "policy_peers": map_shares.POLICY_PEERS,
        "policy_rules": map_shares.POLICY_RULES,
        "doors": map_shares.NODE_PORT_ENTRIES,
    }
    without_share = {"nodes", "forbidden", "ports", "buckets"}
    assert pools.keys() | without_share == {each.value for each in MapName}, "say who can fill a new table"
    sizes = limits.map_sizes()
    for name, pool in pools.items():
        assert pool.owner_max <= pool.capacity <= 0.75 * sizes[name], name

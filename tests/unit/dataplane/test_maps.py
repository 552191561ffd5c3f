"""The mirror of the C structs is checked by the C compiler itself: every size, offset, enumerator and flag."""

import subprocess
from enum import Enum
from pathlib import Path

import pytest

from alcove.dataplane import maps
from alcove.dataplane.build import find_compiler, sources_folder
from alcove.dataplane.drops import DropReason
from alcove.dataplane.errors import BuildFailed
from alcove.dataplane.maps import LAYOUTS, StructLayout

SKIPPED_MEMBERS = {"pad", "pad2"}


def compiles(assertions: list[str], folder: Path) -> str:
    """What the compiler says of the assertions; nothing if all hold."""
    source = folder / "mirror.c"
    source.write_text(
        '#include "alcove.c"\n' + "".join(f'_Static_assert({one}, "{one}");\n' for one in assertions)
    )
    try:
        compiler = find_compiler()
    except BuildFailed as error:
        pytest.skip(str(error))
    multiarch = subprocess.run(["uname", "-m"], capture_output=True, text=True, check=True).stdout.strip()
    command = [compiler, "-target", "bpf", "-fsyntax-only", "-Wno-address-of-packed-member"]
    command += [f"-I/usr/include/{multiarch}-linux-gnu", f"-I{sources_folder()}", str(source)]
    return subprocess.run(command, capture_output=True, text=True, check=False).stderr


def layout_assertions(layout: StructLayout) -> list[str]:
    messages = [f"sizeof(struct {layout.c_name}) == {layout.size}"]
    messages += [
        f"offsetof(struct {layout.c_name}, {name}) == {offset}" for name, offset in layout.offsets().items()
    ]
    return messages


def enum_assertions(kind: type[Enum], prefix: str) -> list[str]:
    return [f"{prefix}{one.name} == {one.value}" for one in kind]


def test_every_struct_is_as_in_c(tmp_path: Path) -> None:
    assertions = [line for layout in LAYOUTS for line in layout_assertions(layout)]
    assert len(assertions) > 80
    assert compiles(assertions, tmp_path) == ""


def test_every_enumerator_and_flag_is_as_in_c(tmp_path: Path) -> None:
    assertions = [*enum_assertions(DropReason, "REASON_"), f"REASON_COUNT == {len(DropReason)}"]
    assertions += [*enum_assertions(maps.PathTaken, "PATH_"), f"PATH_COUNT == {len(maps.PathTaken)}"]
    assertions += enum_assertions(maps.RouteKind, "ROUTE_") + enum_assertions(maps.FlowKind, "FLOW_")
    assertions += enum_assertions(maps.PortFlag, "PORT_") + enum_assertions(maps.EndpointFlag, "ENDPOINT_")
    assertions += enum_assertions(maps.FlowFlag, "FLOW_")
    assertions += [f"ROUTE_SELF == {maps.ROUTE_SELF}", f"ROUTE_NODES == {maps.ROUTE_NODES_MAX}"]
    assertions += [f"SERVICE_DIRECT == {maps.SERVICE_DIRECT}", f"MEMORIES == {maps.MEMORIES_MAX}"]
    assertions += [f"DOOR_BALANCER == {maps.DOOR_BALANCER}", f"DOOR_SLOT_SHIFT == {maps.DOOR_SLOT_SHIFT}"]
    assert compiles(assertions, tmp_path) == ""


def test_a_wrong_mirror_is_noticed(tmp_path: Path) -> None:
    assert "REASON_NOTICE == 99" in compiles(["REASON_NOTICE == 99"], tmp_path)


def test_layouts_read_what_they_wrote() -> None:
    packed = maps.SERVICE.pack(7, 3, 0, 1)
    assert maps.SERVICE.unpack(packed) == {"set": 7, "count": 3, "affinity_ticks": 0, "flags": 1}
    assert len(packed) == maps.SERVICE.size

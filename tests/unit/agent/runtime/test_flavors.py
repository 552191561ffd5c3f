"""Scripts that call runtimes: what they hide, and how one stands in for a container."""

import subprocess
import sys
from pathlib import Path

import pytest

from alcove.agent.cgroups import Cgroups
from alcove.agent.runtime.flavors import CRUN, GVISOR, GVISOR_HIDING, RUNC, STARTED, Flavor, script

V1 = "cgroup /c/memory cgroup rw,memory 0 0\n"
HYBRID = V1 + "cgroup2 /c/unified cgroup2 rw 0 0\n"
V2 = "cgroup2 /c cgroup2 rw 0 0\n"


@pytest.mark.parametrize(
    ("flavor", "mounts", "hidden"),
    [
        (CRUN, V1, ""),
        (CRUN, V2, ""),
        (CRUN, HYBRID, "umount /c/unified"),
        (RUNC, HYBRID, ""),
        (GVISOR, HYBRID, ""),
        (GVISOR_HIDING, V2, "mount -t tmpfs -o ro tmpfs /proc/sys/net"),
    ],
)
def test_what_is_hidden_from_whom(flavor: Flavor, mounts: str, hidden: str) -> None:
    text = script(flavor, "/usr/bin/program", Path("/state"), Cgroups(mounts))
    assert (hidden in text) if hidden else ("unshare" not in text)
    assert "/usr/bin/program --root=/state" in text


def test_a_path_with_a_space_is_one_word() -> None:
    assert "'--root=/a b'" in script(RUNC, "/usr/bin/runc", Path("/a b"), Cgroups(V1))


@pytest.mark.parametrize(
    ("told", "code"), [('{"id":"x_","exitStatus":5}', 5), ("nonsense", 255), (None, 255)]
)
def test_one_stands_in_for_a_container_and_exits_as_it_does(
    tmp_path: Path, told: str | None, code: int
) -> None:
    bundle = tmp_path / "bundle"
    bundle.mkdir()
    runtime = tmp_path / "runsc"
    waits = f"echo '{told}'" if told is not None else "exit 1"
    runtime.write_text(f'#!/bin/sh\ncase "$*" in *create*) ;; *wait*) {waits} ;; esac\n')
    runtime.chmod(0o755)
    caller = tmp_path / "script"
    caller.write_text(script(GVISOR, str(runtime), tmp_path / "state", Cgroups(V1)))
    caller.chmod(0o755)
    arguments = ["create", "--bundle", bundle, "--pid-file", bundle / "pid", "x_"]
    # As conmon does it: whoever is left behind becomes our child.
    watcher = f"""
import ctypes, os, subprocess, sys
ctypes.CDLL(None).prctl(36, 1)
subprocess.run(sys.argv[1:], check=True)
pid = int(open({str(bundle / "pid")!r}).read())
assert os.waitpid(pid, os.WNOHANG) == (0, 0)
open({str(bundle / STARTED)!r}, "w").close()
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""
    command = [sys.executable, "-c", watcher, str(caller), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=20)
    assert int(done.stdout) == code


def test_a_container_that_is_not_made_has_no_stand_in(tmp_path: Path) -> None:
    runtime = tmp_path / "runsc"
    runtime.write_text("#!/bin/sh\nexit 3\n")
    runtime.chmod(0o755)
    caller = tmp_path / "script"
    caller.write_text(script(GVISOR, str(runtime), tmp_path, Cgroups(V1)))
    arguments = ["create", "--bundle", str(tmp_path), "--pid-file", str(tmp_path / "pid"), "x_"]
    assert subprocess.run(["sh", str(caller), *arguments], check=False).returncode == 3
    assert not (tmp_path / "pid").exists()

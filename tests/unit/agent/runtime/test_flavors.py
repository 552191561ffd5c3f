"""Wrapper scripts of runtimes."""

import subprocess
import sys
from pathlib import Path

import pytest

from alcove.agent.cgroups import Cgroups
from alcove.agent.runtime.flavors import (
    CRUN,
    DONE,
    FAILED,
    GO,
    GVISOR,
    GVISOR_HIDING,
    RUNC,
    STARTED,
    TIMER_SLACK_SECONDS,
    RuntimeFlavor,
    plain_command,
    script,
)

V1 = "cgroup /c/memory cgroup rw,memory 0 0\n"
HYBRID = V1 + "cgroup2 /c/unified cgroup2 rw 0 0\n"
V2 = "cgroup2 /c cgroup2 rw 0 0\n"


@pytest.mark.parametrize(
    ("flavor", "mounts", "hidden"),
    [
        (CRUN, V1, ""),
        (CRUN, V2, ""),
        (CRUN, HYBRID, "mount -t tmpfs tmpfs /c/unified"),
        (RUNC, HYBRID, ""),
        (GVISOR, HYBRID, ""),
        (GVISOR_HIDING, V2, "mount -t tmpfs -o ro tmpfs /proc/sys/net"),
    ],
)
def test_what_is_hidden_from_whom(flavor: RuntimeFlavor, mounts: str, hidden: str) -> None:
    text = script(flavor, "/usr/bin/program", Path("/state"), Cgroups(mounts))
    assert (hidden in text) if hidden else ("unshare" not in text)
    assert "/usr/bin/program --root=/state" in text


def test_a_path_with_a_space_is_one_word() -> None:
    assert "'--root=/a b'" in script(RUNC, "/usr/bin/runc", Path("/a b"), Cgroups(V1))


def test_a_sandbox_has_coarse_timers(tmp_path: Path) -> None:
    bundle, runtime, caller = tmp_path / "bundle", tmp_path / "runsc", tmp_path / "script"
    bundle.mkdir()
    runtime.write_text('#!/bin/sh\ncat /proc/self/timerslack_ns >"$0.slack"\n')
    caller.write_text(script(GVISOR, str(runtime), tmp_path / "state", Cgroups(V1)))
    for each in (runtime, caller):
        each.chmod(0o755)
    words = ("create", "--bundle", str(bundle), "--pid-file", str(tmp_path / "pid"), "x")
    subprocess.run([caller, *words], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    (bundle / GO).unlink()  # Who waits for the start ends then.
    assert int((tmp_path / "runsc.slack").read_text()) == TIMER_SLACK_SECONDS * 1e9


@pytest.mark.parametrize(
    ("starts", "waits", "code"),
    [
        ("true", """echo '{"id":"x_","exitStatus":5}'""", 5),
        ("true", "echo nonsense", 255),
        ("true", "exit 1", 255),
        ("exit 3", "exit 0", 255),
    ],
)
def test_one_stands_in_for_a_container_and_exits_as_it_does(
    tmp_path: Path, starts: str, waits: str, code: int
) -> None:
    bundle = tmp_path / "bundle"
    bundle.mkdir()
    runtime = tmp_path / "runsc"
    runtime.write_text(
        f"#!/bin/sh\ncase $* in *create*) ;; *start.log*) {starts} ;; *wait*) {waits} ;; esac\n"
    )
    runtime.chmod(0o755)
    caller = tmp_path / "script"
    caller.write_text(script(GVISOR, str(runtime), tmp_path / "state", Cgroups(V1)))
    caller.chmod(0o755)
    # As conmon does it: whoever is left behind becomes our child.
    watcher = f"""
import ctypes, os, subprocess, sys
ctypes.CDLL(None).prctl(36, 1)
os.chdir({str(bundle)!r})
subprocess.run(sys.argv[1:], check=True)
pid = int(open("pid").read())
assert os.waitpid(pid, os.WNOHANG) == (0, 0)
done = os.open({DONE!r}, os.O_RDONLY | os.O_NONBLOCK)
os.write(os.open({GO!r}, os.O_WRONLY | os.O_NONBLOCK), b"go")  # It is being read from the first.
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), len(os.read(done, 9)))
"""
    arguments = ["create", "--bundle", str(bundle), "--pid-file", str(bundle / "pid"), "x_"]
    command = [sys.executable, "-c", watcher, str(caller), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert [int(word) for word in done.stdout.split()] == [code, int(starts == "true")]
    assert ((bundle / STARTED).exists(), (bundle / FAILED).exists()) == (starts == "true", starts != "true")


def test_a_container_that_is_not_made_has_no_stand_in(tmp_path: Path) -> None:
    runtime = tmp_path / "runsc"
    runtime.write_text("#!/bin/sh\nexit 3\n")
    runtime.chmod(0o755)
    caller = tmp_path / "script"
    caller.write_text(script(GVISOR, str(runtime), tmp_path, Cgroups(V1)))
    arguments = ["create", "--bundle", str(tmp_path), "--pid-file", str(tmp_path / "pid"), "x_"]
    assert subprocess.run(["sh", str(caller), *arguments], check=False).returncode == 3
    assert not (tmp_path / "pid").exists()


@pytest.mark.parametrize("verb", ["create", "delete"])
def test_what_makes_control_groups_is_called_elsewhere(tmp_path: Path, verb: str) -> None:
    """What the script does, with programs in place of the real ones that say how they were called."""
    for name in ("unshare", "program"):
        (tmp_path / name).write_text(f'#!/bin/sh\necho {name} "$@"\n')
        (tmp_path / name).chmod(0o755)
    text = script(CRUN, str(tmp_path / "program"), Path("/state"), Cgroups(HYBRID))
    called = tmp_path / "script"
    called.write_text(text)
    done = subprocess.run(
        ["sh", str(called), verb, "x"],
        capture_output=True,
        text=True,
        env={"PATH": f"{tmp_path}:/bin:/usr/bin"},
    )
    assert done.stdout.split()[0] == "unshare"
    assert done.stdout.split()[-2:] == [verb, "x"]
    assert plain_command(CRUN, "/usr/bin/crun", Path("/state"), verb) is None


@pytest.mark.parametrize("flavor", [CRUN, RUNC, GVISOR])
def test_only_containers_in_namespaces_are_started_without_the_script(flavor: RuntimeFlavor) -> None:
    command = plain_command(flavor, "/usr/bin/x", Path("/state"), "start")
    assert command == (None if flavor is GVISOR else ["/usr/bin/x", "--root=/state"])

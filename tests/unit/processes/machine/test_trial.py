"""The trial of runtimes: what is installed and does not run anything is never called fine."""

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from alcove.agent.cgroups import Cgroups
from alcove.agent.runtime.base import ContainerRuntime, HandlerName
from alcove.agent.runtime.handlers import TRIED, RuntimeHandlers, prove_all
from alcove.agent.runtime.hollow import HollowRuntime
from alcove.processes.machine import preflight, trial
from alcove.processes.machine.preflight import CheckState, PreflightFinding
from alcove.testing import containers, needs

LACKING = containers.lacking() or needs.tools("runsc", "crun", "conmon", "unshare")
DOCTOR = [sys.executable, "-m", "alcove.processes.main", "doctor", "-o", "json"]


def handlers(proven: str, failed: dict[str, str]) -> RuntimeHandlers:
    runtimes: dict[HandlerName, ContainerRuntime] = {
        HandlerName(name): HollowRuntime() for name in proven.split()
    }
    return RuntimeHandlers(runtimes, {HandlerName(name): why for name, why in failed.items()})


@pytest.mark.parametrize(
    ("proven", "failed", "state", "message"),
    [
        ("crun gvisor runc", {}, CheckState.OK, "each has run a container"),
        ("gvisor", {}, CheckState.OK, "gvisor"),
        ("crun", {}, CheckState.WARNING, "share this machine's kernel"),
        ("gvisor", {"crun": "no such cgroup"}, CheckState.WARNING, "crun: no such cgroup"),
        ("crun", {"gvisor": "unknown platform: systrap"}, CheckState.NO_TENANTS, "unknown platform: systrap"),
        ("", {"gvisor": "it died", "crun": "it died"}, CheckState.HOLLOW, "gvisor: it died"),
        ("", {}, CheckState.HOLLOW, "no OCI runtime is installed"),
    ],
)
def test_what_a_trial_means_for_pods(
    proven: str, failed: dict[str, str], state: CheckState, message: str
) -> None:
    finding = trial.judge(handlers(proven, failed))
    assert finding.state is state and message in finding.detail
    assert bool(finding.fix) == (state is not CheckState.OK)


def test_a_missing_monitor_is_what_the_fix_names() -> None:
    failed = {"crun": "conmon is not installed", "gvisor": "conmon is not installed; conmon is not installed"}
    assert trial.judge(handlers("", failed)).fix == "apt-get install conmon"


def test_long_complaints_end_on_one_line() -> None:
    finding = trial.judge(handlers("crun", {"gvisor": "x\n" * 1_000 + "the reason"}))
    assert "\n" not in finding.detail and finding.detail.endswith("the reason") and len(finding.detail) < 400


async def test_a_proof_is_handed_over_only_while_it_holds(tmp_path: Path) -> None:
    async def runs_well(_runtime: ContainerRuntime) -> None:
        return

    if not any(flavors[0].find() for flavors in TRIED.values()) or needs.tools("conmon"):
        pytest.skip("needs a container runtime and conmon")
    found = await prove_all(tmp_path / "trial", Cgroups(""), runs_well)
    trial.hand_over(tmp_path / "trial", tmp_path / "node")
    proofs = sorted(path.stem for path in (tmp_path / "node" / "proofs").iterdir())
    assert proofs == sorted(found.proven)
    for path in (tmp_path / "trial" / "proofs").iterdir():
        stale = msgspec.json.decode(path.read_bytes()) | {"boot_id": "another"}
        path.write_bytes(msgspec.json.encode(stale))
    trial.hand_over(tmp_path / "trial", tmp_path / "later")
    assert not (tmp_path / "later" / "proofs").exists()


@pytest.mark.root
@pytest.mark.skipif(bool(LACKING), reason=LACKING)
def test_a_trial_runs_containers_and_leaves_nothing(tmp_path: Path) -> None:
    tried = trial.try_once(tmp_path)
    assert {"crun", "gvisor"} <= set(tried.proven), tried.failed
    assert list(tmp_path.iterdir()) == []


def doctor_with(runsc: str, folder: Path) -> "tuple[int, dict[str, str], str]":
    """The doctor where `runsc` is this script: found first, in a mount namespace of its own."""
    (folder / "shadow").mkdir()
    (folder / "shadow" / "runsc").write_text(f"#!/bin/sh\n{runsc}\n")
    (folder / "shadow" / "runsc").chmod(0o755)
    inner = f'mount --bind {folder}/shadow /usr/local/sbin && exec "$0" "$@"'
    done = subprocess.run(
        ["unshare", "--mount", "--propagation=private", "sh", "-c", inner, *DOCTOR, "--data", str(folder)],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    rows = msgspec.json.decode(done.stdout)
    [row] = [row for row in rows if row["check"] == "runtimes"]
    return done.returncode, row, done.stderr


@pytest.mark.root
@pytest.mark.skipif(bool(LACKING), reason=LACKING)
@pytest.mark.parametrize(
    "runsc",
    ["exit 1", "echo 'unknown platform: systrap' >&2; exit 128"],
    ids=["broken", "too old for the platform"],
)
def test_the_doctor_calls_a_gvisor_that_starts_nothing_what_it_is(runsc: str, tmp_path: Path) -> None:
    code, row, complaint = doctor_with(runsc, tmp_path)
    assert code == 1 and row["state"] == CheckState.NO_TENANTS.value, row
    assert "gVisor fails its trial" in row["detail"] and "crun" in row["detail"]
    assert "backports" in row["fix"] and "runtimes" in complaint and "canary" not in complaint


def test_without_root_nothing_is_tried_and_the_doctor_says_so(tmp_path: Path) -> None:
    was = os.geteuid()
    if was == 0:
        os.seteuid(65534)
    try:
        finding = preflight.runtimes(preflight.DataDirectory(tmp_path, 1, False))
    finally:
        os.seteuid(was)
    assert finding == PreflightFinding(
        "runtimes", CheckState.HOLLOW, "cannot be tried without root", "run it with sudo"
    )


@pytest.mark.root
@pytest.mark.skipif(bool(LACKING or needs.tools("mount")), reason=LACKING or needs.tools("mount"))
def test_a_full_disk_is_said_with_what_to_do(tmp_path: Path) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", tmp_path], check=True)
    try:
        with pytest.raises(trial.Untried, match="No space left") as caught:
            trial.try_once(tmp_path)
        assert "free some space" in caught.value.fix
    finally:
        subprocess.run(["umount", tmp_path], check=True)

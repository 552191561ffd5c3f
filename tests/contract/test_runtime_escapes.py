"""Containers that try to escape by known methods: each fails, in every runtime that works here.

Shell commands come from busybox; system calls that no command makes, from a program generated for them. Each
attempt is judged by its effect on the node, not only by the error that the container gets.
"""

import asyncio
import errno
import os
import socket
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import orjson
import pytest

from alcove.agent.cgroups import Cgroups
from alcove.agent.runtime import seccomp_filters, security
from alcove.agent.runtime.base import ExecSession, Isolation, SpecRefused
from alcove.agent.runtime.config import BindMount
from alcove.agent.runtime.oci import OciRuntime
from alcove.api.objects import Object
from alcove.testing import syscalls
from alcove.testing.containers import ContainerLab, working_flavor

pytestmark = [pytest.mark.root]
SECRET = "the secret of the node"


@pytest.fixture(params=["crun", pytest.param("runc", marks=pytest.mark.slow), "gvisor"])
async def lab(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[ContainerLab]:
    flavor, why = await working_flavor(request.param)
    if flavor is None:
        pytest.skip(why)
    runtime = OciRuntime(flavor, tmp_path / "run", Cgroups.of_machine())
    async with ContainerLab(runtime, tmp_path) as lab:
        yield lab


async def attempt(lab: ContainerLab, script: str, container: Object | None = None) -> list[str]:
    sandbox = await lab.sandbox()
    async with asyncio.timeout(60):
        return await lab.output(sandbox, script, container)


COMMANDS = {
    "mount a file system": "mount -t tmpfs none /tmp",
    "mount the kernel's settings anew": "mount -t proc none /tmp && echo x >/tmp/sysrq-trigger",
    "mount over a read-only path": "mount -o remount,rw /proc/sys",
    "make a disk's device": "mknod /tmp/disk b 254 0 && head -c 1 /tmp/disk",
    "make a memory device": "mknod /tmp/mem c 1 1 && head -c 1 /tmp/mem",
    "read the disk": "for d in /dev/vda /dev/sda /dev/nvme0n1; do head -c 1 $d && exit 0; done; exit 1",
    "read the kernel's memory": "test -s /proc/kcore && head -c 1 /proc/kcore | grep -q .",
    "trigger a system request": "echo b >/proc/sysrq-trigger",
    "run a program on every crash": "echo '|/bin/sh' >/proc/sys/kernel/core_pattern",
    "run a program for every module": "echo /bin/sh >/proc/sys/kernel/modprobe",
    "run a program for every empty group": "echo /bin/sh >/sys/fs/cgroup/release_agent",
    "write to the firmware": "echo x >/sys/firmware/efi/efivars/x",
    "announce a device": "echo add >/sys/class/net/lo/uevent",
    "set the time": "date -s 2000-01-01; test $(date +%Y) = 2000",
    "switch swapping on": "dd if=/dev/zero of=/tmp/s bs=4096 count=10 2>/dev/null; mkswap /tmp/s && swapon /tmp/s",
    "load a module": "echo x >/tmp/x.ko; insmod /tmp/x.ko",
    "bind a loop device": "losetup /dev/loop0 /bin/busybox",
}
"""Every one must end with another exit code than zero."""


def settings_of_the_node() -> list[str]:
    paths = [Path("/proc/sys/kernel", name) for name in ("core_pattern", "modprobe", "hostname", "sysrq")]
    return [path.read_text() for path in (*paths, Path("/proc/swaps")) if path.exists()]


async def test_commands_fail(lab: ContainerLab) -> None:
    container = await lab.container(await lab.sandbox(), {"command": ["sleep", "1000"]})
    before = settings_of_the_node()
    async with asyncio.timeout(100):
        codes = {
            case: await lab.runtime.exec(container, ExecSession(["sh", "-c", COMMANDS[case]]))
            for case in COMMANDS
        }
    assert [case for case, code in codes.items() if not code] == []
    assert settings_of_the_node() == before


NEWUSER, NEWNS, NEWNET = 0x10000000, 0x00020000, 0x40000000
CALLS: dict[str, tuple[str, tuple[int | bytes, ...]]] = {
    "mount": ("mount", (b"none", b"/tmp", b"tmpfs", 0, 0)),
    "another way to mount": ("fsopen", (b"tmpfs", 0)),
    "pivot_root": ("pivot_root", (b"/tmp", b"/tmp")),
    "a user namespace": ("unshare", (NEWUSER,)),
    "a user namespace by clone": ("clone", (NEWUSER | 17, 0, 0, 0, 0)),
    "a user namespace by clone3": ("clone3", (0, 0)),
    "a network namespace": ("unshare", (NEWNET,)),
    "a program in the kernel": ("bpf", (0, 0, 0)),
    "a module": ("init_module", (0, 0, b"")),
    "another kernel": ("kexec_load", (0, 0, 0, 0)),
    "keys": ("keyctl", (0, -3, 1)),
    "more keys": ("add_key", (b"user", b"x", b"y", 1, -3)),
    "rings": ("io_uring_setup", (1, 0)),
    "page faults": ("userfaultfd", (0,)),
    "counters": ("perf_event_open", (0, 0, -1, -1, 0)),
    "the clock": ("settimeofday", (0, 0)),
    "reboot": ("reboot", (0xFEE1DEAD, 672274793, 0x89ABCDEF)),
    "files by handle": ("open_by_handle_at", (0, b"", 0)),
    "ports": ("iopl", (3,)),
    "accounting": ("acct", (b"/tmp/x",)),
}  # fmt: skip
IN_THEIR_OWN_KERNEL = {
    "a user namespace", "a user namespace by clone", "a user namespace by clone3", "keys",
}  # fmt: skip
"""gVisor has these of its own making: the node sees nothing of them."""
REFUSALS = {errno.EPERM, errno.ENOSYS, errno.EACCES}
"""Before the arguments are even looked at."""
REFUSALS_BY_ANOTHER_KERNEL = {errno.EINVAL, errno.EFAULT, errno.ENODEV, errno.ENOTSUP}


@pytest.mark.skipif(not syscalls.SUPPORTED, reason="the programs are made for x86-64 only")
async def test_system_calls_are_refused(lab: ContainerLab, tmp_path: Path) -> None:
    own_kernel = lab.runtime.isolation is Isolation.SANDBOX
    cases = {case: call for case, call in CALLS.items() if not (own_kernel and case in IN_THEIR_OWN_KERNEL)}
    # The newest: its pid is none that a container's few processes have, which may trace each other.
    newest = max(int(each) for each in os.listdir("/proc") if each.isdigit())  # noqa: PTH208
    cases["a process of the node"] = ("ptrace", (16, newest, 0, 0))
    programs = {case: syscalls.program(call, *arguments) for case, (call, arguments) in cases.items()}
    codes = await _run_programs(lab, tmp_path, programs)
    results = {case: errno.errorcode.get(code, str(code)) for case, code in codes.items()}
    refusals = REFUSALS | (REFUSALS_BY_ANOTHER_KERNEL if own_kernel else set())
    nobody = {"ESRCH"}
    assert results.pop("a process of the node") in nobody | {errno.errorcode[code] for code in refusals}
    assert [case for case in results if codes[case] not in refusals] == [], results


@pytest.mark.skipif(not syscalls.SUPPORTED, reason="the programs are made for x86-64 only")
async def test_a_filter_compiled_for_an_earlier_container_refuses_the_same(tmp_path: Path) -> None:
    flavor, why = await working_flavor("crun")
    if flavor is None:
        pytest.skip(why)

    def filters() -> list[str]:
        """Of the containers, in the order of their creation; empty for those that crun compiled one for."""
        bundles = sorted((tmp_path / "run/containers").glob("*-c*"), key=lambda each: each.stat().st_ctime)
        configs = [orjson.loads((each / "config.json").read_bytes()) for each in bundles]
        return [each["annotations"].get(seccomp_filters.ANNOTATION, "") for each in configs]

    runtime = OciRuntime(flavor, tmp_path / "run", Cgroups.of_machine())
    async with ContainerLab(runtime, tmp_path) as lab:
        sleeping: Object = {"command": ["sleep", "1000"]}
        await lab.container(await lab.sandbox(), sleeping)
        programs = {case: syscalls.program(call, *arguments) for case, (call, arguments) in CALLS.items()}
        codes = await _run_programs(lab, tmp_path, programs)
        assert [case for case, code in codes.items() if code not in REFUSALS] == []
        fewer = {"securityContext": {"capabilities": {"drop": ["SYS_CHROOT"]}}}
        await lab.container(await lab.sandbox(), sleeping | fewer)
        first, second, other = filters()
        assert (first, bool(second)) == ("", True)
        assert other != second  # It has another profile.


@pytest.mark.skipif(not syscalls.SUPPORTED, reason="the programs are made for x86-64 only")
async def test_the_system_call_program_distinguishes_success_from_failure(
    lab: ContainerLab, tmp_path: Path
) -> None:
    programs = {"good": syscalls.program("getpid"), "bad": syscalls.program("umount2", b"/no/such/place", 0)}
    codes = await _run_programs(lab, tmp_path, programs)
    assert codes["good"] == 0
    assert codes["bad"] != 0


async def _run_programs(lab: ContainerLab, folder: Path, programs: dict[str, bytes]) -> dict[str, int]:
    """The exit code of each, all in one container."""
    home = folder / "programs"
    home.mkdir()
    for number, content in enumerate(programs.values()):
        (home / str(number)).write_bytes(content)
        (home / str(number)).chmod(0o755)
    mounts = [BindMount(str(home), "/programs", read_only=True)]
    container = await lab.container(await lab.sandbox(), {"command": ["sleep", "1000"]}, mounts=mounts)
    codes = {}
    async with asyncio.timeout(100):
        for number, case in enumerate(programs):
            codes[case] = await lab.runtime.exec(container, ExecSession([f"/programs/{number}"]))
    return codes


async def test_the_nodes_files_are_not_there(lab: ContainerLab, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(SECRET)
    path = tmp_path / "secret"
    messages = await attempt(
        lab, f"cat {path} /proc/1/root{path} /../../..{path} /proc/self/root/../..{path}"
    )
    assert SECRET not in "\n".join(messages)


async def test_a_link_in_a_volume_leads_nowhere_outside(lab: ContainerLab, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(SECRET)
    volume = tmp_path / "volume"
    volume.mkdir()
    (volume / "link").symlink_to(tmp_path / "secret")
    (volume / "up").symlink_to("../secret")
    sandbox = await lab.sandbox()
    container = await lab.container(
        sandbox, {"command": ["sh", "-c", "cat /v/link /v/up"]}, mounts=[BindMount(str(volume), "/v")]
    )
    await lab.runtime.wait(container)
    assert lab.lines(container) == []


async def test_the_nodes_network_is_not_there(lab: ContainerLab) -> None:
    messages = await attempt(
        lab, "ls /sys/class/net 2>/dev/null; cat /proc/net/dev | tail -n +3 | cut -d: -f1"
    )
    devices = {line.strip() for line in messages[:-1]}
    assert devices <= {"lo"}


async def test_namespaces_cannot_be_entered(lab: ContainerLab) -> None:
    """In gVisor there is nothing to enter: its namespaces are not the node's."""
    messages = await attempt(lab, "nsenter -t 1 -n -m -u ls / || exit 9")
    if lab.runtime.isolation is Isolation.NAMESPACES:
        assert messages[-1] == "9"


async def test_abstract_sockets_of_the_node_and_of_others_are_not_there(lab: ContainerLab) -> None:
    """Abstract names belong to a network: what listens on the node or in another pod cannot be found."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        name = f"alcove-escape-{os.getpid()}"
        listening.bind(f"\0{name}")
        listening.listen()
        messages = await attempt(lab, "cat /proc/net/unix")
    assert name not in "\n".join(messages)


async def test_processes_of_the_node_and_of_others_are_not_there(lab: ContainerLab) -> None:
    first, second = await lab.sandbox(), await lab.sandbox()
    await lab.container(first, {"command": ["sh", "-c", "sleep 4242"]})
    messages = await lab.output(second, "cat /proc/*/cmdline | tr '\\0' ' '; kill -9 -1; echo survived")
    assert "4242" not in "\n".join(messages)
    assert "pytest" not in "\n".join(messages)


async def test_messages_of_the_kernel_are_not_there(lab: ContainerLab) -> None:
    messages = await attempt(lab, "dmesg && cat /dev/kmsg")
    if lab.runtime.isolation is Isolation.NAMESPACES:
        assert messages[-1] != "0"
    assert "Linux version " + os.uname().release not in "\n".join(messages)


async def test_a_device_in_an_image_or_volume_is_not_opened(lab: ContainerLab, tmp_path: Path) -> None:
    volume = tmp_path / "volume"
    volume.mkdir()
    os.mknod(volume / "disk", 0o660 | stat.S_IFBLK, volume.stat().st_dev)
    sandbox = await lab.sandbox()
    container = await lab.container(
        sandbox,
        {"command": ["sh", "-c", "head -c 1 /v/disk | grep -c ''"]},
        mounts=[BindMount(str(volume), "/v")],
    )
    await lab.runtime.wait(container)
    assert lab.lines(container) == ["0"]


async def test_what_a_tenant_may_not_ask_for_is_refused_before_anything_runs(lab: ContainerLab) -> None:
    sandbox = await lab.sandbox()
    with pytest.raises(SpecRefused, match="privileged"):
        await lab.spec(sandbox, {"command": ["true"], "securityContext": {"privileged": True}})
    for field in ("hostNetwork", "hostPID", "hostIPC"):
        with pytest.raises(SpecRefused, match=field):
            await lab.sandbox({field: True})
    with pytest.raises(SpecRefused, match="sysctl"):
        await lab.sandbox({"securityContext": {"sysctls": [{"name": "kernel.core_pattern", "value": "x"}]}})


async def test_rights_are_the_few_that_were_given(lab: ContainerLab) -> None:
    script = "grep -E 'CapEff|CapBnd|Seccomp:|NoNewPrivs' /proc/self/status"
    messages = await attempt(lab, script, {"securityContext": {"allowPrivilegeEscalation": False}})
    fields = dict(line.split(":\t") for line in messages[:-1])
    assert bin(int(fields["CapEff"], 16)).count("1") == len(security.DEFAULT_CAPABILITIES)
    assert fields["CapEff"] == fields["CapBnd"]
    if lab.runtime.isolation is Isolation.NAMESPACES:
        assert (fields["NoNewPrivs"], fields["Seccomp"]) == ("1", "2")


async def test_another_user_than_root_has_no_rights_at_all(lab: ContainerLab) -> None:
    messages = await attempt(lab, "grep CapEff /proc/self/status", {"securityContext": {"runAsUser": 1_000}})
    assert messages[0] == "CapEff:\t0000000000000000"


async def test_the_attempts_are_real_a_privileged_container_of_ring0_succeeds(tmp_path: Path) -> None:
    flavor, why = await working_flavor("crun")
    if flavor is None:
        pytest.skip(why)
    runtime = OciRuntime(flavor, tmp_path / "run", Cgroups.of_machine())
    async with ContainerLab(runtime, tmp_path, security.RING0) as lab:
        spec = await lab.spec(
            await lab.sandbox(), {"command": ["sleep", "1000"], "securityContext": {"privileged": True}}
        )
        await runtime.create(spec)
        await runtime.start(spec.id)
        assert await runtime.exec(spec.id, ExecSession(["sh", "-c", COMMANDS["mount a file system"]])) == 0

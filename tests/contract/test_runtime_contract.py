"""One suite over every runtime that works on this machine: each keeps the promises of the interface."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from alcove.agent.cgroups import Cgroups
from alcove.agent.runtime.base import (
    ContainerExists,
    ContainerId,
    ContainerPhase,
    ContainerRuntime,
    CreateFailed,
    ExecSession,
    NoSuchContainer,
    RuntimeFailure,
)
from alcove.agent.runtime.config import BindMount, IdMapping
from alcove.agent.runtime.hollow import HollowRuntime
from alcove.agent.runtime.oci import OciRuntime
from alcove.api.objects import Object
from alcove.testing.containers import ContainerLab, working_flavor

pytestmark = [pytest.mark.root]
REAL = ("crun", "runc", "gvisor")
SLEEP: Object = {"command": ["sleep", "1000"]}


async def runtime_of(handler: str, folder: Path) -> ContainerRuntime:
    if handler == "hollow":
        return HollowRuntime()
    flavor, why = await working_flavor(handler)
    if flavor is None:
        pytest.skip(why)
    return OciRuntime(flavor, folder / "run", Cgroups.of_machine())


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A folder that other users than root may pass through, as root of a pod is one on the node."""
    with TemporaryDirectory(prefix="alcove-runtime-") as name:
        Path(name).chmod(0o711)
        yield Path(name)


@pytest.fixture(params=[*REAL, "hollow"])
async def any_lab(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[ContainerLab]:
    async with ContainerLab(await runtime_of(request.param, tmp_path), tmp_path) as lab:
        yield lab


@pytest.fixture(params=["crun", pytest.param("runc", marks=pytest.mark.slow), "gvisor"])
async def lab(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[ContainerLab]:
    async with ContainerLab(await runtime_of(request.param, tmp_path), tmp_path) as lab:
        yield lab


# What every runtime promises, also one that runs nothing


async def test_a_container_is_created_then_started_and_runs(any_lab: ContainerLab) -> None:
    runtime = any_lab.runtime
    sandbox = await any_lab.sandbox()
    spec = await any_lab.spec(sandbox, SLEEP)
    await runtime.create(spec)
    created = await runtime.status(spec.id)
    assert (created.phase, created.sandbox, created.labels) == (
        ContainerPhase.CREATED,
        sandbox,
        {"pod": sandbox},
    )
    assert (created.created_at > 0, created.started_at, created.finished_at) == (True, 0.0, 0.0)
    await runtime.start(spec.id)
    await runtime.start(spec.id)
    running = await runtime.status(spec.id)
    assert running.phase is ContainerPhase.RUNNING
    assert running.started_at > 0
    assert {status.id: status.is_sandbox for status in await runtime.list()} == {
        sandbox: True,
        spec.id: False,
    }


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
async def test_a_killed_container_ends_with_the_signal(any_lab: ContainerLab, number: int) -> None:
    runtime = any_lab.runtime
    sandbox = await any_lab.sandbox()
    # The first process of a container hears only the signals it asks for.
    script = "trap 'exit 143' TERM; echo ready; sleep 1000 & wait"
    container = await any_lab.container(sandbox, {"command": ["sh", "-c", script]})
    await _said(any_lab, container, "ready")
    waiting = asyncio.gather(runtime.wait(container), runtime.wait(container))
    await runtime.kill(container, number)
    async with asyncio.timeout(60):
        for status in await waiting:
            assert (status.phase, status.exit_code, status.oom_killed) == (
                ContainerPhase.EXITED,
                128 + number,
                False,
            )
            assert status.finished_at >= status.started_at
    await runtime.kill(container, number)
    await runtime.start(container)
    assert (await runtime.wait(container)).exit_code == 128 + number
    assert (await runtime.status(sandbox)).phase is ContainerPhase.RUNNING


async def test_an_id_is_used_once(any_lab: ContainerLab) -> None:
    sandbox = await any_lab.sandbox()
    spec = await any_lab.spec(sandbox, SLEEP)
    await any_lab.runtime.create(spec)
    with pytest.raises(ContainerExists):
        await any_lab.runtime.create(spec)
    assert (await any_lab.runtime.status(spec.id)).phase is ContainerPhase.CREATED


async def test_deleting_ends_whatever_runs_and_is_safe_to_repeat(any_lab: ContainerLab) -> None:
    runtime = any_lab.runtime
    sandbox = await any_lab.sandbox()
    created = await any_lab.spec(sandbox, SLEEP)
    await runtime.create(created)
    running = await any_lab.container(sandbox, SLEEP)
    for container in (created.id, running, sandbox):
        await runtime.delete(container)
        await runtime.delete(container)
        with pytest.raises(NoSuchContainer):
            await runtime.status(container)
    assert list(await runtime.list()) == []


async def test_what_was_never_made_is_not_there(any_lab: ContainerLab) -> None:
    runtime, nobody = any_lab.runtime, ContainerId("nobody")
    await runtime.delete(nobody)
    for call in (runtime.status, runtime.start, runtime.wait, runtime.stats, runtime.reopen_log):
        with pytest.raises(NoSuchContainer):
            await call(nobody)
    with pytest.raises(NoSuchContainer):
        await runtime.kill(nobody, 9)
    with pytest.raises(NoSuchContainer):
        await runtime.exec(nobody, ExecSession(["true"]))


async def test_a_container_needs_its_sandbox(any_lab: ContainerLab) -> None:
    sandbox = await any_lab.sandbox()
    spec = await any_lab.spec(sandbox, SLEEP)
    await any_lab.runtime.delete(sandbox)
    with pytest.raises(RuntimeFailure):
        await any_lab.runtime.create(spec)
        await any_lab.runtime.start(spec.id)


# What those promise that really run something


async def test_exit_codes_and_both_streams(lab: ContainerLab) -> None:
    sandbox = await lab.sandbox()
    container = await lab.container(sandbox, {"command": ["sh", "-c", "echo out; echo err >&2; exit 3"]})
    status = await lab.runtime.wait(container)
    assert (status.phase, status.exit_code) == (ContainerPhase.EXITED, 3)
    assert (lab.lines(container), lab.lines(container, "stderr")) == (["out"], ["err"])


async def test_all_output_is_in_the_log_in_order(lab: ContainerLab) -> None:
    sandbox = await lab.sandbox()
    count = 20_000
    container = await lab.container(sandbox, {"command": ["sh", "-c", f"seq 1 {count}"]})
    await lab.runtime.wait(container)
    assert lab.lines(container) == [str(number) for number in range(1, count + 1)]


async def test_a_missing_command_is_reported_and_leaves_nothing(lab: ContainerLab) -> None:
    sandbox = await lab.sandbox()
    spec = await lab.spec(sandbox, {"command": ["/no/such/command"]})
    with pytest.raises(CreateFailed, match=r"no such file|not found"):
        await lab.runtime.create(spec)
        await lab.runtime.start(spec.id)
    await lab.runtime.delete(spec.id)
    assert [status.id for status in await lab.runtime.list()] == [sandbox]


async def test_containers_of_a_sandbox_share_network_and_name_but_not_processes(lab: ContainerLab) -> None:
    sandbox = await lab.sandbox()
    await lab.container(sandbox, {"command": ["sh", "-c", "nc -l -p 8080 -e echo hello"]})
    messages = await lab.output(
        sandbox,
        "hostname; until nc 127.0.0.1 8080 2>/dev/null; do sleep 0.1; done; ls /proc | grep -c '^[0-9]'",
    )
    name, word, processes, code = messages[0], *messages[-3:]
    assert (name, word, code) == ("pod", "hello", "0")
    assert int(processes) < 5


async def test_containers_of_a_pod_may_share_their_processes(lab: ContainerLab) -> None:
    pod: Object = {"shareProcessNamespace": True}
    sandbox = await lab.sandbox(pod)
    await lab.container(sandbox, {"command": ["sleep", "4243"]}, pod)
    # The other may not have begun its program yet.
    script = "until cat /proc/*/cmdline 2>/dev/null | tr '\\0' '\\n' | grep -x '424[3]'; do sleep 0.1; done"
    container = await lab.container(sandbox, {"command": ["sh", "-c", script]}, pod)
    async with asyncio.timeout(60):
        await lab.runtime.wait(container)
    assert lab.lines(container) == ["4243"]


async def test_user_groups_directory_and_variables(lab: ContainerLab) -> None:
    sandbox = await lab.sandbox()
    container: Object = {
        "workingDir": "/tmp",
        "securityContext": {"runAsUser": 1_000, "runAsGroup": 3_000},
        "command": ["sh", "-c", "id -u; id -g; id -G; pwd; echo $HOME $GREETING"],
    }
    pod: Object = {"securityContext": {"fsGroup": 4_000, "supplementalGroups": [5_000]}}
    spec = await lab.spec(sandbox, container, pod, variables=[("NAME", "you"), ("GREETING", "hello $(NAME)")])
    await lab.runtime.create(spec)
    await lab.runtime.start(spec.id)
    await lab.runtime.wait(spec.id)
    assert lab.lines(spec.id) == ["1000", "3000", "3000 4000 5000", "/tmp", "/ hello you"]


@pytest.mark.parametrize("lab", ["crun"], indirect=True)
async def test_root_of_a_pod_with_a_user_namespace_is_nobody_on_the_node(
    lab: ContainerLab, tmp_path: Path
) -> None:
    """Files of volumes with mapped ids are crun's; gVisor has users of its own making."""
    mapping = IdMapping(200_000)
    volume = tmp_path / "volume"
    volume.mkdir()
    sandbox = await lab.sandbox(mapping=mapping)
    script = "id -u; stat -c %u /bin/busybox; echo x >/etc/new && echo y >/v/new; stat -c %u /etc/new /v/new; sleep 1000"
    mounts = [BindMount(str(volume), "/v")]
    container = await lab.container(
        sandbox, {"command": ["sh", "-c", script]}, mounts=mounts, mapping=mapping
    )
    await _until(lambda: len(lab.lines(container)) == 4)
    assert lab.lines(container) == ["0"] * 4
    process = (await lab.runtime.status(container)).process
    assert os.stat(f"/proc/{process}").st_uid == 200_000  # noqa: PTH116
    assert (lab.snapshots.mount(container, lab.rootfs) / "etc/new").stat().st_uid == 200_000
    assert (volume / "new").stat().st_uid == 0


async def test_a_root_directory_can_be_read_only_and_mounts_too(lab: ContainerLab, tmp_path: Path) -> None:
    sandbox = await lab.sandbox()
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "file").write_text("content\n")
    mounts = [BindMount(str(shared), "/ro", read_only=True), BindMount(str(shared), "/rw")]
    script = "cat /ro/file; echo x >/file || echo 1; echo x >/ro/new || echo 2; echo new >/rw/new && echo 3"
    container: Object = {"command": ["sh", "-c", script], "securityContext": {"readOnlyRootFilesystem": True}}
    id = await lab.container(sandbox, container, mounts=mounts)
    await lab.runtime.wait(id)
    assert lab.lines(id) == ["content", "1", "2", "3"]
    assert (shared / "new").read_text() == "new\n"


async def test_what_a_container_writes_is_its_own(lab: ContainerLab) -> None:
    sandbox = await lab.sandbox()
    assert await lab.output(sandbox, "echo mine >/etc/mine; cat /etc/mine") == ["mine", "0"]
    assert (await lab.output(sandbox, "cat /etc/mine"))[-1] == "1"
    assert not (lab.rootfs / "etc/mine").exists()


async def test_more_memory_than_allowed_ends_a_container_and_says_so(lab: ContainerLab) -> None:
    sandbox = await lab.sandbox(memory_bytes_max=96 << 20)
    limits = {"resources": {"limits": {"memory": "48Mi"}}}
    eat = "tail /dev/zero"
    container = await lab.container(sandbox, {"command": ["sh", "-c", eat], **limits})
    async with asyncio.timeout(60):
        status = await lab.runtime.wait(container)
    assert status.oom_killed
    assert status.exit_code != 0


async def test_a_fork_bomb_stays_within_its_number_of_processes(lab: ContainerLab) -> None:
    """In gVisor the sandbox's own threads count, and its processes are none of the node's."""
    sandbox = await lab.sandbox(processes_max=300)
    spec = await lab.spec(
        sandbox, {"command": ["sh", "-c", "b() { b | b & }; b; sleep 1000"]}, processes_max=100
    )
    await lab.runtime.create(spec)
    await lab.runtime.start(spec.id)
    await asyncio.sleep(0.5)
    assert len(lab.cgroups.processes(lab.name)) <= 400
    await lab.runtime.delete(spec.id)
    assert [status.id for status in await lab.runtime.list()] == [sandbox]


async def test_stats_report_the_usage(lab: ContainerLab) -> None:
    sandbox = await lab.sandbox()
    container = await lab.container(sandbox, {"command": ["sh", "-c", "while :; do :; done"]})
    before = after = await lab.runtime.stats(container)
    async with asyncio.timeout(60):
        while after.cpu_nanoseconds <= before.cpu_nanoseconds:
            await asyncio.sleep(0.1)
            after = await lab.runtime.stats(container)
    assert after.processes >= 1
    assert (await lab.runtime.stats(sandbox)).memory_bytes > 0


# Processes in running containers


async def _capture(
    lab: ContainerLab, container: ContainerId, *args: str, stdin: bytes = b""
) -> tuple[int, bytes]:
    reading, writing = os.pipe()
    input_reading, input_writing = os.pipe()
    os.write(input_writing, stdin)
    os.close(input_writing)
    code = await lab.runtime.exec(
        container, ExecSession(args, stdin=input_reading, stdout=writing, stderr=writing)
    )
    os.close(writing)
    os.close(input_reading)
    with os.fdopen(reading, "rb") as file:
        return code, file.read()


async def test_exec_gives_output_and_exit_code_and_takes_input(lab: ContainerLab) -> None:
    sandbox = await lab.sandbox()
    container = await lab.container(sandbox, {**SLEEP, "securityContext": {"runAsUser": 1_000}})
    assert await _capture(lab, container, "sh", "-c", "id -u; exit 4") == (4, b"1000\n")
    assert await _capture(lab, container, "cat", stdin=b"through\n") == (0, b"through\n")
    code, output = await _capture(lab, container, "/no/such/command")
    assert code != 0
    assert output


async def test_exec_on_a_terminal(lab: ContainerLab) -> None:
    sandbox = await lab.sandbox()
    container = await lab.container(sandbox, SLEEP)
    upper, lower = os.openpty()
    process = ExecSession(
        ["sh", "-c", "tty; test -t 0 && echo terminal"], tty=True, stdin=lower, stdout=lower, stderr=lower
    )
    async with asyncio.timeout(60):
        assert await lab.runtime.exec(container, process) == 0
    os.close(lower)
    output = b""
    with suppress(OSError):  # The end of a terminal that nobody has open any more.
        while data := os.read(upper, 4_096):
            output += data
    os.close(upper)
    assert b"terminal" in output


async def test_an_exec_that_is_given_up_ends(lab: ContainerLab) -> None:
    sandbox = await lab.sandbox()
    container = await lab.container(sandbox, SLEEP)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1.5):
            await lab.runtime.exec(container, ExecSession(["sleep", "777"]))
    async with asyncio.timeout(60):
        while b"777" in (await _capture(lab, container, "ps"))[1]:
            pass


async def test_nothing_runs_in_what_does_not_run(lab: ContainerLab) -> None:
    sandbox = await lab.sandbox()
    container = await lab.container(sandbox, {"command": ["true"]})
    await lab.runtime.wait(container)
    with pytest.raises(NoSuchContainer):
        await lab.runtime.exec(container, ExecSession(["true"]))


# Streams of the container itself


async def _attached(runtime: ContainerRuntime, container: ContainerId, data: bytes) -> bytes:
    """The output after `data` was written to the container's stdin, as a client that attaches sees it."""
    assert isinstance(runtime, OciRuntime)
    with runtime.attach(container) as stream:
        loop = asyncio.get_running_loop()
        await loop.sock_sendall(stream, data)
        output = b""
        async with asyncio.timeout(60):
            while b"you said" not in output:
                output += (await loop.sock_recv(stream, 8_192))[1:]
        return output


@pytest.mark.parametrize("tty", [False, True])
async def test_input_and_output_of_a_container_that_is_attached_to(lab: ContainerLab, tty: bool) -> None:
    sandbox = await lab.sandbox()
    script = "read line; echo you said $line; sleep 1000"
    container = await lab.container(sandbox, {"command": ["sh", "-c", script], "stdin": True, "tty": tty})
    assert b"you said hello" in await _attached(lab.runtime, container, b"hello\n")


# Logs and what is left


async def test_a_renamed_log_goes_on_in_a_new_file(lab: ContainerLab) -> None:
    sandbox = await lab.sandbox()
    container = await lab.container(
        sandbox, {"command": ["sh", "-c", "echo one; read x; echo two"], "stdin": True}
    )
    await _said(lab, container, "one")
    log = lab.log(container)
    log.rename(log.with_suffix(".old"))
    await lab.runtime.reopen_log(container)
    await _until(log.exists)
    await lab.runtime.kill(container, signal.SIGKILL)
    await lab.runtime.wait(container)
    assert "one" in log.with_suffix(".old").read_text()
    assert "one" not in log.read_text()


async def test_nothing_is_left_of_deleted_containers(lab: ContainerLab) -> None:
    sandbox = await lab.sandbox()
    container = await lab.container(sandbox, {"command": ["sh", "-c", "sleep 1001 & sleep 1002"]})
    await lab.runtime.delete(container)
    await lab.runtime.delete(sandbox)
    assert lab.container_cgroups() == []
    assert list((lab.folder / "run/containers").iterdir()) == []
    await _until(lambda: not _processes_mentioning(str(lab.folder)))


def _processes_mentioning(text: str) -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if text in line and "pytest" not in line:
            found.append(line)
    return found


async def _said(lab: ContainerLab, container: ContainerId, word: str) -> None:
    if lab.runtime.handler != "hollow":
        await _until(lambda: word in lab.lines(container))


async def _until(condition: Callable[[], object], seconds: float = 60.0) -> None:
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110  What is waited for happens in other processes.
            await asyncio.sleep(0.02)

"""kubectl exec, cp and attach, through the API server, in containers that really run."""

import asyncio
import contextlib
import os
from pathlib import Path

import kubernetes
import kubernetes.stream
import pytest

from alcove.agent.server import pings
from alcove.agent.server import server as node_server
from alcove.testing import needs
from alcove.testing.nodeserver import NodeRig
from alcove.testing.server import Caller, LocalServer
from alcove.testing.terminal import PtyProcess

pytestmark = [pytest.mark.root]

SPDY = {"KUBECTL_REMOTE_COMMAND_WEBSOCKETS": "false"}
SLEEPS: dict[str, object] = {"name": "main"}


@pytest.mark.parametrize("env", [{}, SPDY], ids=["websocket", "spdy"])
async def test_streams_and_exit_codes(any_rig: NodeRig, server: LocalServer, env: dict[str, str]) -> None:
    rig, acme = any_rig, server.as_tenant("acme")
    await rig.pod("acme", "runs", [SLEEPS])
    script = "echo out; echo bad >&2; exit 3"
    done = await rig.kubectl(acme, "exec", "runs", "--", "sh", "-c", script, env=env)
    assert (done.code, done.out) == (3, "out\n")
    assert done.errors == "bad\ncommand terminated with exit code 3\n"
    output = await rig.kubectl(acme, "exec", "-i", "runs", "--", "cat", stdin=b"through\n", env=env)
    assert (output.code, output.out) == (0, "through\n")
    assert (await rig.kubectl(acme, "exec", "runs", "--", "true", env=env)).code == 0
    missing = await rig.kubectl(acme, "exec", "runs", "--", "/no/such/command", env=env)
    assert missing.code != 0
    assert "/no/such/command" in missing.errors


@pytest.mark.parametrize("env", [{}, SPDY], ids=["websocket", "spdy"])
async def test_many_bytes_both_ways_arrive_as_they_left(
    rig: NodeRig, server: LocalServer, env: dict[str, str]
) -> None:
    await rig.pod("acme", "pipe", [SLEEPS])
    data = os.urandom(12_000_000).hex().encode()
    done = await rig.kubectl(server.as_tenant("acme"), "exec", "-i", "pipe", "--", "cat", stdin=data, env=env)
    assert done.code == 0
    assert done.out.encode() == data


def on_terminal(caller: Caller, *arguments: str, env: dict[str, str] | None = None) -> PtyProcess:
    return PtyProcess("kubectl", "--kubeconfig", str(caller.kubeconfig), *arguments, env=env)


@pytest.mark.parametrize("env", [{}, SPDY], ids=["websocket", "spdy"])
async def test_a_shell_on_a_terminal(any_rig: NodeRig, server: LocalServer, env: dict[str, str]) -> None:
    await any_rig.pod("acme", "shell", [SLEEPS])
    async with on_terminal(server.as_tenant("acme"), "exec", "-it", "shell", "--", "sh", env=env) as terminal:
        await terminal.sees("#")
        terminal.type("test -t 0 && echo a ter'minal'\r")
        await terminal.sees("a terminal")
        await terminal.sees("33 77", asking="stty size\r")
        terminal.resize(101, 42)
        await terminal.sees("42 101", asking="stty size\r")
        terminal.type("exit 7\r")
        async with asyncio.timeout(60):
            assert await terminal.process.wait() == 7


async def test_a_process_ends_with_its_client(rig: NodeRig, server: LocalServer) -> None:
    await rig.pod("acme", "left", [SLEEPS])
    acme = server.as_tenant("acme")
    running = await rig.begin(acme, "exec", "left", "--", "sh", "-c", "echo begun; exec sleep 4321")
    assert running.stdout is not None
    async with asyncio.timeout(60):
        assert await running.stdout.readline() == b"begun\n"
    running.kill()
    await running.wait()
    async with asyncio.timeout(60):
        while "4321" in (await rig.kubectl(acme, "exec", "left", "--", "ps")).out:
            pass


async def fill(pipe: asyncio.StreamWriter, bytes_max: int) -> None:
    """Writes until nothing more is taken, or everything was."""
    with contextlib.suppress(TimeoutError):
        for _ in range(bytes_max >> 20):
            pipe.write(bytes(1 << 20))
            async with asyncio.timeout(1):
                await pipe.drain()


@pytest.mark.parametrize("size", [256 << 20, 1 << 20])
async def test_a_process_that_reads_nothing_ends_with_its_client_too(
    rig: NodeRig, server: LocalServer, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(node_server, "WATCH_SECONDS", 0.2)
    monkeypatch.setattr(pings, "PING_SECONDS", 0.2)
    await rig.stop()
    await rig.start()
    await rig.pod("acme", "deaf", [SLEEPS])
    acme = server.as_tenant("acme")
    running = await rig.begin(acme, "exec", "-i", "deaf", "--", "sh", "-c", "echo begun; exec sleep 5432")
    assert running.stdin is not None and running.stdout is not None
    async with asyncio.timeout(60):
        assert await running.stdout.readline() == b"begun\n"
    # More than what is between them can hold, or so little that nothing is left to be sent.
    await fill(running.stdin, size)
    running.kill()
    await running.wait()
    async with asyncio.timeout(60):
        while "5432" in (await rig.kubectl(acme, "exec", "deaf", "--", "ps")).out:
            pass


async def test_the_python_client_runs_commands_as_it_is(rig: NodeRig, server: LocalServer) -> None:
    await rig.pod("acme", "python", [SLEEPS])
    config = server.as_tenant("acme").kubeconfig

    def run() -> tuple[str, str, int]:
        api = kubernetes.client.CoreV1Api(kubernetes.config.new_client_from_config(str(config)))  # type: ignore[no-untyped-call]
        command = ["sh", "-c", "read x; echo got $x; echo bad >&2; exit 5"]
        stream = kubernetes.stream.stream(
            api.connect_get_namespaced_pod_exec, "python", "default", command=command, stdin=True,
            stdout=True, stderr=True, tty=False, _preload_content=False,
        )  # fmt: skip
        stream.write_stdin("it\n")
        stream.run_forever(timeout=60)
        return stream.read_stdout(), stream.read_stderr(), stream.returncode

    assert await asyncio.to_thread(run) == ("got it\n", "bad\n", 5)


# Over SPDY, old ones cannot distinguish a lost connection from the end of the command.
@pytest.mark.skipif(bool(needs.kubectl(31)), reason=needs.kubectl(31))
async def test_a_node_that_dies_ends_the_client(rig: NodeRig, server: LocalServer) -> None:
    await rig.pod("acme", "dies", [SLEEPS])
    running = await rig.begin(
        server.as_tenant("acme"), "exec", "dies", "--", "sh", "-c", "echo begun; sleep 1000"
    )
    assert running.stdout is not None
    async with asyncio.timeout(60):
        assert await running.stdout.readline() == b"begun\n"
        await rig.stop()
        assert await running.wait() != 0
    output = await rig.kubectl(server.as_tenant("acme"), "exec", "dies", "--", "true")
    assert f'error dialing backend: node "{rig.name}" cannot be reached: connection refused' in output.errors


async def test_files_are_copied_both_ways(any_rig: NodeRig, server: LocalServer, folder: Path) -> None:
    rig, acme = any_rig, server.as_tenant("acme")
    await rig.pod("acme", "files", [SLEEPS])
    sent, returned = folder / "sent", folder / "returned"
    sent.write_bytes(os.urandom(3_000_000))
    done = await rig.kubectl(acme, "cp", str(sent), "files:/tmp/there")
    assert done.code == 0, done.errors
    done = await rig.kubectl(acme, "cp", "files:/tmp/there", str(returned))
    assert done.code == 0, done.errors
    assert returned.read_bytes() == sent.read_bytes()


@pytest.mark.parametrize("env", [{}, SPDY], ids=["websocket", "spdy"])
async def test_who_attaches_talks_to_the_process_itself(
    any_rig: NodeRig, server: LocalServer, env: dict[str, str]
) -> None:
    script = "while read line; do echo you said $line; done; echo over"
    main = {"name": "main", "command": ["sh", "-c", script], "stdin": True, "stdinOnce": True}
    await any_rig.pod("acme", "listens", [main])
    attached = await any_rig.begin(server.as_tenant("acme"), "attach", "-i", "listens", env=env)
    assert attached.stdin is not None and attached.stdout is not None
    attached.stdin.write(b"hello\n")
    async with asyncio.timeout(60):
        while b"you said hello" not in await attached.stdout.readline():
            pass
        attached.stdin.close()
        assert b"over" in await attached.stdout.read()
        assert await attached.wait() == 0


async def test_a_terminal_that_is_attached_to_can_be_resized(rig: NodeRig, server: LocalServer) -> None:
    script = "while read line; do stty size; done"
    main = {"name": "main", "command": ["sh", "-c", script], "stdin": True, "tty": True}
    await rig.pod("acme", "term", [main])
    async with on_terminal(server.as_tenant("acme"), "attach", "-it", "term") as terminal:
        await terminal.sees("try pressing enter")
        await terminal.sees("33 77", asking="\r")
        terminal.resize(101, 42)
        await terminal.sees("42 101", asking="\r")

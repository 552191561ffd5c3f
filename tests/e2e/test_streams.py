"""Two tenants on one node, each with kubectl: run, logs -f, exec -it, cp, attach, port-forward, top; and not the other's."""

import asyncio
import http.client
import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest

from alcove.processes import down
from alcove.processes.machine import supervisor_state
from alcove.testing import needs
from alcove.testing.claims import free_port
from alcove.testing.machine import lacking
from alcove.testing.server import wait_until
from alcove.testing.terminal import PtyProcess

pytestmark = [
    pytest.mark.root,
    pytest.mark.timeout(300),
    pytest.mark.skipif(bool(lacking()), reason=lacking()),
]
IMAGE = ("--image=alcove/busybox:latest", "--image-pull-policy=Never")
TENANTS = ("shop", "bank")
SERVES = (
    "echo of {}; echo {} >/tmp/who; httpd -p 8080 -h /tmp; while read x; do echo heard $x; done; sleep 1000"
)


def alcove(*words: str) -> str:
    command = [sys.executable, "-m", "alcove.processes.main", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


class User:
    """One who has nothing but kubectl and a kubeconfig."""

    def __init__(self, kubeconfig: Path) -> None:
        self.kubeconfig = kubeconfig
        self.command = ("kubectl", "--kubeconfig", str(kubeconfig))

    def kubectl(self, *words: str, stdin: str = "") -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [*self.command, *words], input=stdin, capture_output=True, text=True, timeout=150
        )

    def must(self, *words: str, stdin: str = "") -> str:
        done = self.kubectl(*words, stdin=stdin)
        assert done.returncode == 0, f"kubectl {' '.join(words)}: {done.stdout}{done.stderr}"
        return done.stdout

    def run(self, name: str, script: str, *options: str) -> None:
        self.must("run", name, *IMAGE, *options, "--command", "--", "sh", "-c", script)
        ready = self.kubectl("wait", "--for=condition=Ready", f"pod/{name}", "--timeout=120s")
        assert ready.returncode == 0, self.must("describe", "pod", name)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    data = tmp_path_factory.mktemp("streams") / "state"
    try:
        alcove("up", "--no-demo", "--data", str(data), "--port", str(free_port()))
        yield data
    finally:
        down.destroy(data)


@pytest.fixture(scope="module")
def ring0(cluster: Path) -> User:
    return User(cluster / "admin.kubeconfig")


@pytest.fixture(scope="module")
def users(cluster: Path) -> dict[str, User]:
    """The administrators of two tenants, each with a pod `web` of the same name."""
    found = {}
    way = ("--kubeconfig", str(cluster / "admin.kubeconfig"))
    for tenant in TENANTS:
        alcove("tenant", "create", tenant, *way)
        path = cluster.parent / f"{tenant}.kubeconfig"
        alcove("tenant", "kubeconfig", tenant, "--output", str(path), *way)
        found[tenant] = User(path)
        found[tenant].run("web", SERVES.format(tenant, tenant), "--stdin", "--attach=false")
    return found


def test_each_sees_its_own_log(users: dict[str, User]) -> None:
    for tenant, user in users.items():
        # A pod without a readiness probe is ready before its program has written anything.
        wait_until(partial(user.must, "logs", "web"))
        assert user.must("logs", "web") == f"of {tenant}\n"
        assert user.must("logs", "web", "--tail=1", "--timestamps").endswith(f" of {tenant}\n")


def test_a_log_is_followed_and_the_attempt_before_is_kept(users: dict[str, User]) -> None:
    user = users["shop"]
    user.must(
        "run", "short", *IMAGE, "--restart=Never", "--command", "--", "sh", "-c", "echo a; sleep 2; echo b"
    )
    wait_until(lambda: user.kubectl("logs", "short").stdout, 60)
    assert user.must("logs", "-f", "short") == "a\nb\n"
    user.must("run", "again", *IMAGE, "--command", "--", "sh", "-c", "echo turn $(date +%s%N); sleep 1")
    restarts = "jsonpath={.status.containerStatuses[0].restartCount}"
    wait_until(lambda: int(user.must("get", "pod", "again", "-o", restarts) or 0) >= 1, 60)
    previous = wait_until(lambda: user.kubectl("logs", "again", "--previous").stdout)
    assert previous.startswith("turn ")
    user.must("delete", "pod", "short", "again", "--now", "--wait=false")


def test_commands_and_their_exit_codes(users: dict[str, User]) -> None:
    for tenant, user in users.items():
        done = user.kubectl("exec", "web", "--", "sh", "-c", "cat /tmp/who; echo bad >&2; exit 3")
        assert (done.returncode, done.stdout) == (3, f"{tenant}\n")
        assert done.stderr == "bad\ncommand terminated with exit code 3\n"
        assert user.must("exec", "-i", "web", "--", "tr", "a-z", "A-Z", stdin="quiet\n") == "QUIET\n"


async def test_a_shell_on_a_terminal(users: dict[str, User]) -> None:
    async with PtyProcess(*users["shop"].command, "exec", "-it", "web", "--", "sh") as terminal:
        await terminal.sees("#")
        terminal.resize(101, 42)
        await terminal.sees("42 101", asking="stty size; cat /tmp/who\r")
        await terminal.sees("shop\r\n")
        terminal.type("exit 7\r")
        async with asyncio.timeout(60):
            assert await terminal.process.wait() == 7


async def test_a_pod_of_ones_own_for_a_moment(users: dict[str, User]) -> None:
    words = ("run", "box", "-it", "--rm", "--restart=Never", *IMAGE, "--command", "--", "sh")
    async with PtyProcess(*users["bank"].command, *words) as terminal:
        await terminal.sees("If you don't see a command prompt")
        await terminal.sees("I am 42", asking="echo I am $((40 + 2))\r")
        terminal.type("exit\r")
        async with asyncio.timeout(60):
            assert await terminal.process.wait() == 0
    wait_until(lambda: users["bank"].kubectl("get", "pod", "box").returncode != 0)


@pytest.mark.skipif(bool(needs.kubectl(25)), reason=needs.kubectl(25))
async def test_a_look_into_a_pod_from_a_container_beside(users: dict[str, User]) -> None:
    words = ("debug", "-it", "web", "--image=alcove/busybox:latest", "--image-pull-policy=Never", "--", "sh")
    async with PtyProcess(*users["shop"].command, *words) as terminal:
        await terminal.sees("If you don't see a command prompt")
        await terminal.sees("beside 42", asking="echo beside $((40 + 2))\r")
        terminal.type("exit\r")
        async with asyncio.timeout(60):
            await terminal.process.wait()


def test_files_there_and_back(users: dict[str, User], tmp_path: Path) -> None:
    sent, back = tmp_path / "sent", tmp_path / "back"
    sent.write_bytes(os.urandom(1_000_000))
    users["bank"].must("cp", str(sent), "web:/tmp/file")
    users["bank"].must("cp", "web:/tmp/file", str(back))
    assert back.read_bytes() == sent.read_bytes()


async def test_who_attaches_is_heard(users: dict[str, User]) -> None:
    process = await asyncio.create_subprocess_exec(
        *(*users["shop"].command, "attach", "-i", "web"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(b"me\n")
    async with asyncio.timeout(60):
        assert await process.stdout.readline() == b"heard me\n"
    process.kill()
    await process.wait()


@contextmanager
def forwarded(user: User) -> Iterator[int]:
    process = subprocess.Popen(
        [*user.command, "port-forward", "pod/web", ":8080"], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        yield int(process.stdout.readline().split(":")[1].split()[0])
    finally:
        process.terminate()
        process.communicate()


def page(user: User) -> str:
    """What the pod serves through a forwarded port. Waits until it does: kubectl gives up the port of a pod that
    does not listen yet."""

    def attempt() -> str:
        with (
            suppress(OSError, http.client.HTTPException),
            forwarded(user) as port,
            urllib.request.urlopen(f"http://127.0.0.1:{port}/who", timeout=60) as found,
        ):
            return str(found.read().decode())
        return ""

    return str(wait_until(attempt))


def test_ports_of_equal_pods_are_each_tenants_own(users: dict[str, User]) -> None:
    for tenant, user in users.items():
        assert page(user) == f"{tenant}\n"


def test_a_port_that_only_the_pod_itself_reaches(ring0: User) -> None:
    ring0.run("web", "echo within >/tmp/who; httpd -f -p 127.0.0.1:8080 -h /tmp")
    assert page(ring0) == "within\n"
    ring0.must("delete", "pod", "web", "--now")


def pods_used(user: User) -> list[str]:
    return [row.split()[0] for row in user.kubectl("top", "pod", "--no-headers").stdout.splitlines()]


def test_usage_of_pods_and_of_the_node(users: dict[str, User], ring0: User) -> None:
    for user in users.values():
        # Those of earlier tests may still be going.
        wait_until(lambda user=user: pods_used(user) == ["web"])
        assert user.kubectl("top", "node").returncode != 0
    output = wait_until(lambda: ring0.kubectl("top", "node", "--no-headers").stdout)
    assert output.split()[0] == "node-1"


def _uses_websockets() -> bool:
    """Whether this kubectl executes commands over WebSockets, as those since 1.31 do."""
    client = json.loads(subprocess.check_output(["kubectl", "version", "--client", "-o", "json"]))
    return int(client["clientVersion"]["minor"].rstrip("+")) >= 31


def test_an_agent_that_is_killed_ends_streams_and_serves_again(users: dict[str, User], cluster: Path) -> None:
    user = users["shop"]
    following = subprocess.Popen(
        [*user.command, "logs", "-f", "web"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    running = subprocess.Popen([*user.command, "exec", "web", "--", "sleep", "600"])
    assert following.stdout is not None
    assert following.stdout.readline() == b"of shop\n"
    pid = supervisor_state.states(cluster)["node-1"].pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    assert following.communicate(timeout=100)[1] != b""
    assert following.returncode != 0
    # Over SPDY, kubectl takes a lost connection for the end of the command.
    assert running.wait(100) != 0 or not _uses_websockets()
    wait_until(lambda: user.kubectl("logs", "web").stdout.startswith("of shop"), 60)
    assert user.must("exec", "web", "--", "cat", "/tmp/who") == "shop\n"


@pytest.mark.parametrize(
    "words",
    [
        ("logs", "web"),
        ("exec", "web", "--", "true"),
        ("attach", "web"),
        ("port-forward", "web", ":8080"),
        ("cp", "web:/tmp/who", "/dev/null"),
        ("top", "pod"),
    ],
    ids=lambda words: words[0],
)
def test_nobody_gets_at_another_tenants_pod(
    users: dict[str, User], words: tuple[str, ...], tmp_path: Path
) -> None:
    text = users["bank"].kubeconfig.read_text()
    stranger = User(tmp_path / "stranger.kubeconfig")
    stranger.kubeconfig.write_text(text.replace("/tenants/bank", "/tenants/shop"))
    done = stranger.kubectl(*words)
    assert done.returncode != 0
    output = (done.stdout + done.stderr).lower()
    assert "forbidden" in output or "metrics api not available" in output  # As an old kubectl puts it.
    assert "of shop" not in done.stdout

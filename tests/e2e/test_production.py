"""The example of `deploy/`: three members of etcd and two of each process, started by the commands of the units.

Only what must differ on one machine is changed: addresses are those of loopback, folders are below a temporary one, and
probe ports are free ones.
"""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from alcove.testing import etcd, needs
from alcove.testing.claims import free_port
from alcove.testing.server import Caller, wait_until
from alcove.testing.units import expand, read_environment, read_unit

pytestmark = [
    pytest.mark.alone,
    pytest.mark.timeout(300),
    pytest.mark.skipif(bool(etcd.lacking()), reason=etcd.lacking()),
    pytest.mark.skipif(bool(needs.tools("openssl", "bash")), reason=needs.tools("openssl", "bash")),
]
DEPLOY = Path(__file__).parents[2] / "deploy"
ALCOVE = [sys.executable, "-m", "alcove.processes.main"]
SHARED_KEYS = ("ca.crt", "ca.key", "sa.key")
PODS = "/api/v1/tenants/acme/namespaces/default/pods"


class Machine:
    """One of the example's, with its folders in a folder."""

    def __init__(self, name: str, folder: Path) -> None:
        self.folder = folder / name
        self.etc, self.state = self.folder / "etc", self.folder / "state"
        self.state.mkdir(parents=True)
        self.etc.mkdir()
        for path in (DEPLOY / "example" / name).iterdir():
            (self.etc / path.name).write_text(self._here(path.read_text()))
        self.address = read_environment(self.etc / "alcove.env")["ALCOVE_ADDRESS"]

    def _here(self, text: str) -> str:
        for there, here in (
            ("192.0.2.", "127.0.0."),
            ("/var/lib/alcove", str(self.state)),
            ("/etc/alcove", str(self.etc)),
        ):
            text = text.replace(there, here)
        return text

    def start(self, stack: ExitStack, process: str, **more: str) -> subprocess.Popen[bytes]:
        """Starts the unit's command, to be ended with the stack."""
        unit = read_unit(DEPLOY / "systemd" / f"alcove-{process}.service")
        environment = {**read_environment(Path(self._here(unit["EnvironmentFile"]))), **more}
        program, *words = [self._here(word) for word in expand(unit["ExecStart"], environment)]
        if "--probe-port" in words:
            words[words.index("--probe-port") + 1] = str(free_port())
        command = [program, *words] if process == "etcd" else [*ALCOVE, *words]
        log = stack.enter_context((self.folder / f"{process}.log").open("ab"))
        running = subprocess.Popen(command, env={**os.environ, **environment}, stdout=log, stderr=log)
        stack.callback(_end, running)
        return running


def _end(running: subprocess.Popen[bytes]) -> None:
    running.send_signal(signal.SIGTERM)
    running.wait(90)


def _alcove(*words: str) -> str:
    done = subprocess.run([*ALCOVE, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Machine]]:
    """The steps of docs/production.md. The node is hollow: a real one is another test's."""
    folder = tmp_path_factory.mktemp("production")
    found = [Machine(name, folder) for name in ("one", "two", "three")]
    one, two, three = found
    subprocess.run(
        [DEPLOY / "example" / "etcd-pki", folder / "pki", *(each.address for each in found)], check=True
    )
    with ExitStack() as stack:
        for each in found:
            shutil.copytree(folder / "pki" / each.address, each.etc / "etcd-pki")
            each.start(stack, "etcd")
        for each in (one, two):
            if each is two:
                (two.state / "apiserver" / "pki").mkdir(parents=True)
                for name in SHARED_KEYS:
                    shutil.copy(one.state / "apiserver/pki" / name, two.state / "apiserver/pki" / name)
            server = each.start(stack, "apiserver")
            wait_until(lambda each=each: (each.state / "apiserver" / "admin.kubeconfig").exists(), 60)
            assert server.poll() is None
        for each in (one, two):
            each.start(stack, "controllers")
            each.start(stack, "scheduler")
        admin = str(one.state / "apiserver" / "admin.kubeconfig")
        url = f"https://{one.address}:6443"
        token = _alcove("node", "token", "--server", url, "--kubeconfig", admin).split()[-1]
        _alcove("node", "join", token, "--enrol-only", "--hollow", "--data", str(three.state / "node"))
        three.start(stack, "agent", ALCOVE_AGENT_OPTIONS="--hollow")
        _alcove("tenant", "create", "acme", "--kubeconfig", admin)
        yield found


@pytest.fixture
def callers(machines: list[Machine]) -> list[Caller]:
    return [Caller(each.state / "apiserver" / "admin.kubeconfig") for each in machines[:2]]


def test_the_example_of_three_machines_runs_a_tenants_pods(callers: list[Caller]) -> None:
    container = {"name": "c", "image": "alcove/busybox"}
    one, two = callers
    made = one.post(PODS, {"metadata": {"name": "web"}, "spec": {"containers": [container]}})
    assert made.status == 201, made.json
    wait_until(lambda: two.get(f"{PODS}/web").json.get("status", {}).get("phase") == "Running", 60)

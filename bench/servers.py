"""The servers that are measured, each in a process of its own: ours, a bare aiohttp application, and, where
KUBEBUILDER_ASSETS names a folder with kube-apiserver and etcd, those.
"""

from __future__ import annotations

import compileall
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import alcove
from alcove.api.ids import SYSTEM, TenantId
from alcove.apiserver.auth.certificates import CertificateAuthority
from alcove.apiserver.auth.subjects import Subject
from alcove.testing.kube_apiserver import KubeApiServer
from alcove.testing.server import LocalServer
from alcove.testing.workers import WorkerServer

START_SECONDS_MAX = 60.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def resident_mb(pid: int) -> float:
    """Resident memory of a process and its children."""
    total = 0.0
    for each in [pid, *_children(pid)]:
        pages = int(Path(f"/proc/{each}/statm").read_text().split()[1])
        total += pages * os.sysconf("SC_PAGE_SIZE") / 2**20
    return total


def cpu_seconds(pid: int) -> float:
    """CPU time that a process and its children have used."""
    return sum(time.clock_gettime(_cpu_clock(each)) for each in [pid, *_children(pid)])


def _cpu_clock(pid: int) -> int:
    """As clock_getcpuclockid(3): nanoseconds, where /proc/PID/stat has hundredths of a second, four of which are 48 small objects."""
    return (~pid << 3) | 2


def compile_package() -> None:
    """Makes sure that there is bytecode of the package, as where it is installed: otherwise a start compiles all of it."""
    compileall.compile_dir(Path(alcove.__file__).parent, quiet=1)


def _children(pid: int) -> list[int]:
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            found += [int(child), *_children(int(child))]
    return found


def client_context(
    authority: CertificateAuthority, directory: Path, tenant: str, user: str, groups: tuple[str, ...]
) -> ssl.SSLContext:
    """TLS with a client certificate for somebody."""
    issued = authority.client(Subject(TenantId(tenant), user, groups), time.time())
    pair = directory / f"{tenant}-{user}.pem"
    pair.write_bytes(issued.certificate_pem + issued.key_pem + authority.certificate_pem)
    context = ssl.create_default_context(cadata=authority.certificate_pem.decode())
    context.load_cert_chain(pair)
    return context


class Alcove:
    """Our API server, as `alcove apiserver` starts it."""

    def __init__(self, directory: Path, workers: int = 1, options: tuple[str, ...] = ()) -> None:
        self._directory = directory
        data = directory / "data"
        self.server = LocalServer(data, *options) if workers == 1 else WorkerServer(data, workers, *options)

    def __enter__(self) -> Alcove:
        self.server.start()
        self.authority = CertificateAuthority.open(self.server.directory / "pki", time.time())
        return self

    def __exit__(self, *_exc: object) -> None:
        self.server.stop()

    @property
    def port(self) -> int:
        return self.server.address[1]

    def resident_mb(self) -> float:
        return resident_mb(self.server.pid)

    def pair(self, tenant: str, user: str) -> Path:
        """The file with the certificate and key of somebody for whom `caller` was asked."""
        return self._directory / f"{tenant}-{user}.pem"

    def caller(
        self, tenant: str = SYSTEM, user: str = "admin", groups: tuple[str, ...] = ("system:masters",)
    ) -> ssl.SSLContext:
        return client_context(self.authority, self._directory, tenant, user, groups)


BARE = """
import sys, ssl, uvloop
from aiohttp import web
body = open(sys.argv[1], "rb").read()
async def answer(request):
    return web.Response(body=body, content_type="application/json")
app = web.Application()
app.router.add_get("/{path:.*}", answer)
tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
tls.load_cert_chain(sys.argv[2], sys.argv[3])
uvloop.install()
web.run_app(app, host="127.0.0.1", port=int(sys.argv[4]), ssl_context=tls, print=None, access_log=None)
"""


class Bare:
    """A bare aiohttp application on uvloop and TLS that returns the same bytes, whatever is asked."""

    def __init__(self, directory: Path, body: bytes, pki: Path) -> None:
        self.port = free_port()
        body_path = directory / "body"
        body_path.write_bytes(body)
        pair = [str(pki / "apiserver.crt"), str(pki / "apiserver.key")]
        self._command = [sys.executable, "-c", BARE, str(body_path), *pair, str(self.port)]

    def __enter__(self) -> Bare:
        self._process = subprocess.Popen(self._command)
        wait_for_port(self.port, self._process)
        return self

    def __exit__(self, *_exc: object) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()


def wait_for_port(
    port: int, process: subprocess.Popen[bytes], ready: Callable[[], bool] = lambda: True
) -> None:
    deadline = time.monotonic() + START_SECONDS_MAX
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"{process.args!r} ended with {process.returncode}")
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            if ready():
                return
        except OSError:
            pass
        time.sleep(0.05)
    raise RuntimeError(f"nothing answers on port {port}")


class Kubernetes(KubeApiServer):
    """kube-apiserver and etcd from KUBEBUILDER_ASSETS, with client certificates and RBAC as ours."""

    def __init__(self, directory: Path, assets: Path) -> None:
        super().__init__(
            directory,
            assets,
            "--disable-admission-plugins=ServiceAccount",
            "--service-cluster-ip-range=10.96.0.0/16",
        )

    def caller(self) -> ssl.SSLContext:
        pair = self.directory / "client.pem"
        pair.write_bytes(b"".join(self.client("bench")))
        context = ssl.create_default_context(cadata=self.authority.certificate_pem.decode())
        context.load_cert_chain(pair)
        return context

    def resident_mb(self) -> float:
        return sum(resident_mb(process.pid) for process in self.processes)

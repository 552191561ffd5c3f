"""The implementations that contract suites run against: stores, and container runtimes."""

import itertools
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from alcove.agent.cgroups import Cgroups
from alcove.agent.runtime.oci import OciRuntime
from alcove.store.base import Store
from alcove.store.encrypted import EncryptedStore
from alcove.store.encryption import AesGcmKey, Encryption, Providers
from alcove.store.remote import RemoteStore
from alcove.store.shared_revision import SharedRevision
from alcove.store.sqlite import SqliteStore
from alcove.store.store_server import StoreServer
from alcove.store.worker_channel import WorkerChannel
from alcove.testing.claims import free_port
from alcove.testing.containers import ContainerLab, working_flavor

Open = Callable[[], Awaitable[Store]]
"""Opens the store that is kept in one place; again after closing, it has what was written."""


class EtcdServer:
    """A real etcd on loopback that can be killed and started again on its data."""

    def __init__(self, program: str, folder: Path) -> None:
        self.endpoint = f"127.0.0.1:{free_port()}"
        peer = f"127.0.0.1:{free_port()}"
        self._command = [
            *(program, "--name", "contract", "--data-dir", str(folder), "--log-level", "error"),
            *("--listen-client-urls", f"http://{self.endpoint}"),
            *("--advertise-client-urls", f"http://{self.endpoint}"),
            *("--listen-peer-urls", f"http://{peer}", "--initial-advertise-peer-urls", f"http://{peer}"),
            *("--initial-cluster", f"contract=http://{peer}"),
        ]
        self.start()

    def start(self) -> None:
        quiet = subprocess.DEVNULL
        self._running = subprocess.Popen(self._command, stdout=quiet, stderr=quiet)
        host, port = self.endpoint.split(":")
        deadline = time.monotonic() + 90
        while True:
            try:
                socket.create_connection((host, int(port))).close()
                return
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)

    def kill(self) -> None:
        self._running.kill()
        self._running.wait()

    def send(self, number: signal.Signals) -> None:
        self._running.send_signal(number)
        if number == signal.SIGSTOP:  # Its threads stop one after the other.
            os.waitid(os.P_PID, self._running.pid, os.WSTOPPED | os.WNOWAIT)


@pytest.fixture(scope="session")
def new_etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], EtcdServer]]:
    """Starts etcd servers, which are stopped after the tests."""
    pytest.importorskip("alcove.store.etcd", reason="grpcio and protobuf are not installed")
    program = shutil.which("etcd")
    if program is None:
        pytest.skip("no etcd on this machine: apt-get install etcd-server")
    servers: list[EtcdServer] = []

    def start() -> EtcdServer:
        servers.append(EtcdServer(program, tmp_path_factory.mktemp("etcd")))
        return servers[-1]

    yield start
    for server in servers:
        server.kill()


@pytest.fixture(scope="session")
def etcd_endpoint(new_etcd: Callable[[], EtcdServer]) -> str:
    """One server that tests share, each with its own prefix."""
    return new_etcd().endpoint


def sqlite_locations(request: pytest.FixtureRequest) -> Callable[[], Open]:
    folder: Path = request.getfixturevalue("tmp_path")
    numbers = itertools.count()
    return lambda: partial(SqliteStore.open, folder / f"{next(numbers)}.db")


prefixes = (f"/registry-{number}" for number in itertools.count())


def etcd_locations(request: pytest.FixtureRequest) -> Callable[[], Open]:
    endpoint: str = request.getfixturevalue("etcd_endpoint")
    from alcove.store.etcd import EtcdStore

    return lambda: partial(EtcdStore.open, [endpoint], prefix=next(prefixes))


def encrypted_locations(request: pytest.FixtureRequest) -> Callable[[], Open]:
    """SQLite below encryption of everything."""
    new_location = sqlite_locations(request)
    encryption = Encryption([(["*.*"], Providers.of([AesGcmKey("k", b"k" * 32)]))])

    def location() -> Open:
        open_beneath = new_location()

        async def open_store() -> Store:
            return EncryptedStore(await open_beneath(), encryption)

        return open_store

    return location


class ServedStore(RemoteStore):
    """A store with the one that it is served from, which is closed with it."""

    owner: SqliteStore

    async def close(self) -> None:
        await super().close()
        await self.owner.close()


def served_locations(request: pytest.FixtureRequest) -> Callable[[], Open]:
    """SQLite as a worker of the API server sees it."""
    new_location = sqlite_locations(request)

    def location() -> Open:
        open_beneath = new_location()

        async def open_store() -> Store:
            owner = await open_beneath()
            assert isinstance(owner, SqliteStore)
            served, ours = WorkerChannel(), WorkerChannel()
            shared = SharedRevision.create()
            StoreServer(owner, shared).serve(served)
            for channel, end in zip((served, ours), socket.socketpair(), strict=True):
                await channel.connect(end)
            store = await ServedStore.open(ours, shared)
            store.owner = owner
            return store

        return open_store

    return location


IMPLEMENTATIONS = {
    "sqlite": sqlite_locations,
    "etcd": etcd_locations,
    "encrypted": encrypted_locations,
    "served": served_locations,
}


@pytest.fixture(params=IMPLEMENTATIONS)
def new_location(request: pytest.FixtureRequest) -> Callable[[], Open]:
    """Creates empty locations for stores of each implementation."""
    return IMPLEMENTATIONS[request.param](request)


@pytest.fixture
def open_store(new_location: Callable[[], Open]) -> Open:
    """Opens, and opens again, one store."""
    return new_location()


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that users of containers may enter."""
    with TemporaryDirectory(prefix="alcove-runtime-") as name:
        Path(name).chmod(0o711)
        yield Path(name)


@pytest.fixture(params=["crun", pytest.param("runc", marks=pytest.mark.slow), "gvisor"])
async def lab(request: pytest.FixtureRequest, folder: Path) -> AsyncIterator[ContainerLab]:
    flavor, why = await working_flavor(request.param)
    if flavor is None:
        pytest.skip(why)
    async with ContainerLab(OciRuntime(flavor, folder / "run", Cgroups.of_machine()), folder) as made:
        yield made

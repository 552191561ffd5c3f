"""A restart of the API server costs the other processes nothing: their watches resume, and who leads goes on."""

import asyncio
import fcntl
import threading
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from alcove.client import kubeconfig
from alcove.client.client import ListSelection
from alcove.client.keys import HOME
from alcove.client.planes import Planes
from alcove.client.pool import HttpPool
from alcove.client.resources import CONFIG_MAPS, NAMESPACES, PODS
from alcove.client.transport import Stream
from alcove.testing.controlplane import LocalControllers
from alcove.testing.scheduler import LocalScheduler
from alcove.testing.server import LocalServer, wait_until

MAPS = "/api/v1/namespaces/default/configmaps"
SECONDS_MAX = 90.0


class RecordingTransport:
    """Remembers the watches that were asked for."""

    def __init__(self, server: LocalServer) -> None:
        self._pool = HttpPool(kubeconfig.load(server.admin_kubeconfig))
        self.watches: list[str] = []
        self.request, self.close = self._pool.request, self._pool.close

    def stream(self, path: str, headers: Mapping[str, str]) -> AbstractAsyncContextManager[Stream]:
        self.watches.append(path)
        return self._pool.stream(path, headers)


@pytest.mark.parametrize("is_slow", [False, True])
async def test_watches_resume_where_they_were(tmp_path: Path, is_slow: bool) -> None:
    """Also if the server answers 503 for a while, as one that reads a million objects."""
    with LocalServer(tmp_path / "server") as server:
        transport = RecordingTransport(server)
        async with Planes(user_agent="test") as planes, asyncio.timeout(SECONDS_MAX):
            mirrors = [planes.mirror(ListSelection(each)) for each in (CONFIG_MAPS, NAMESPACES, PODS)]
            planes.join(HOME, transport)
            await planes.synced()
            assert server.system.post(MAPS, {"metadata": {"name": "before"}}).status == 201
            await asyncio.to_thread(server.kill)
            transport.watches.clear()
            with (tmp_path / "server" / "store.db.lock").open("w") as lock:
                if is_slow:
                    fcntl.flock(lock, fcntl.LOCK_EX)
                starting = threading.Thread(target=server.start)
                starting.start()
                if is_slow:
                    await asyncio.to_thread(wait_until, lambda: len(transport.watches) >= 4 * len(mirrors))
            await asyncio.to_thread(starting.join)
            assert server.system.post(MAPS, {"metadata": {"name": "after"}}).status == 201
            await asyncio.to_thread(
                wait_until, lambda: {"before", "after"} <= {key.name for key in mirrors[0].everything()}
            )
            watched = [each for each in transport.watches if "/configmaps?" in each]
            assert watched and all("resourceVersion=" in each for each in transport.watches)
            assert not any("sendInitialEvents" in each for each in transport.watches)
        await transport.close()


def test_who_leads_goes_on_after_an_outage_that_is_longer_than_its_lease(tmp_path: Path) -> None:
    short = ("--lease-seconds", "2")
    with LocalServer(tmp_path / "server") as server:
        controllers = LocalControllers(server, tmp_path, *short)
        scheduler = LocalScheduler(server.admin_kubeconfig, tmp_path, *short)
        with controllers, scheduler:
            server.kill()
            for each in (controllers, scheduler):
                wait_until(lambda: "failed to renew lease in time" in each.log)  # noqa: B023 - called at once
            server.start()
            for each in (controllers, scheduler):
                wait_until(lambda: "renewed lease; continuing" in each.log)  # noqa: B023 - called at once
            # What comes now is worked on, in the same term.
            made = server.system.post("/api/v1/tenants", {"metadata": {"name": "after"}})
            assert made.status == 201, made.body
            accounts = "/api/v1/tenants/after/namespaces/default/serviceaccounts/default"
            wait_until(lambda: server.system.get(accounts).status == 200)
        for each in (controllers, scheduler):
            assert each.log.count("became leader") == 1 and "lost leadership" not in each.log

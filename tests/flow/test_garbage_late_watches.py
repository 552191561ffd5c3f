"""Dependents of custom kinds that the garbage collector comes to know late: none is kept without its owner."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from alcove.client.transport import Stream, Transport
from alcove.controllers.garbage.collector import GarbageCollector
from alcove.http.client import ReceivedResponse
from alcove.testing.controllers import RunningControllers
from alcove.testing.server import Caller, LocalServer, wait_until

MAPS = "/api/v1/namespaces/default/configmaps"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"


class LateTransport:
    """Lists and watches of one resource wait until `released` is set."""

    def __init__(self, inner: Transport, resource: str, released: Event) -> None:
        self._inner = inner
        self._resource = resource
        self._released = released

    async def wait(self, path: str) -> None:
        is_late = path.partition("?")[0].endswith(f"/{self._resource}")
        if is_late:
            await asyncio.to_thread(self._released.wait)

    async def request(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes = b""
    ) -> ReceivedResponse:
        await self.wait(path)
        return await self._inner.request(method, path, headers, body)

    @asynccontextmanager
    async def stream(self, path: str, headers: Mapping[str, str]) -> AsyncIterator[Stream]:
        await self.wait(path)
        async with self._inner.stream(path, headers) as stream:
            yield LateStream(stream, self, path)

    async def close(self) -> None:
        await self._inner.close()


class LateStream:
    def __init__(self, inner: Stream, transport: LateTransport, path: str) -> None:
        self._inner = inner
        self._transport = transport
        self._path = path

    @property
    def status(self) -> int:
        return self._inner.status

    @property
    def headers(self) -> Mapping[str, str]:
        return self._inner.headers

    async def chunks(self) -> AsyncIterator[bytes]:
        async for chunk in self._inner.chunks():
            await self._transport.wait(self._path)
            yield chunk


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServer]:
    directory: Path = tmp_path_factory.mktemp("late")
    with LocalServer(directory) as server:
        yield server


@contextmanager
def collector(server: LocalServer, late: str) -> Iterator[Event]:
    """A collector that gets no list and no change of the resource `late` while the event is not set."""
    released = Event()
    released.set()  # To start, it needs the CRDs.
    with RunningControllers(
        server.admin_kubeconfig,
        (GarbageCollector,),
        through=lambda inner: LateTransport(inner, late, released),
    ):
        released.clear()
        try:
            yield released
        finally:
            released.set()


def make_kind(caller: Caller) -> None:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    spec = {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
        "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
    }
    assert caller.post(CRDS, {"metadata": {"name": "widgets.example.com"}, "spec": spec}).status == 201
    wait_until(lambda: caller.get(WIDGETS).status == 200)


def make_owner_and_dependent(caller: Caller) -> None:
    kind = {"apiVersion": "example.com/v1", "kind": "Widget"}
    owner = caller.post(WIDGETS, {**kind, "metadata": {"name": "owner"}}).json["metadata"]
    reference = {**kind, "name": owner["name"], "uid": owner["uid"]}
    metadata: dict[str, Any] = {"name": "dependent", "ownerReferences": [reference]}
    assert caller.post(MAPS, {"metadata": metadata}).status == 201


def wait_for_collection(caller: Caller) -> None:
    """The collector has looked at everything that was written before."""
    absent = {"apiVersion": "v1", "kind": "ConfigMap", "name": "none", "uid": "none"}
    assert caller.post(MAPS, {"metadata": {"name": "last", "ownerReferences": [absent]}}).status == 201
    wait_until(lambda: caller.get(f"{MAPS}/last").status == 404)


@pytest.mark.parametrize("late", ["widgets", "customresourcedefinitions"])
def test_an_owner_that_goes_before_its_kind_is_watched_takes_its_dependents_along(
    server: LocalServer, late: str
) -> None:
    caller = server.make_tenant(f"late-{late}")
    server.make_namespace(f"late-{late}", "default")
    with collector(server, late) as released:
        make_kind(caller)
        make_owner_and_dependent(caller)
        wait_for_collection(caller)
        assert caller.get(f"{MAPS}/dependent").status == 200
        assert caller.delete(f"{WIDGETS}/owner").status == 200
        released.set()
        wait_until(lambda: caller.get(f"{MAPS}/dependent").status == 404)


def test_a_dependent_of_a_kind_that_never_was_is_kept(server: LocalServer) -> None:
    caller = server.make_tenant("never")
    server.make_namespace("never", "default")
    with collector(server, "widgets") as released:
        released.set()
        reference = {"apiVersion": "example.com/v1", "kind": "Gadget", "name": "a", "uid": "a"}
        metadata: dict[str, Any] = {"name": "dependent", "ownerReferences": [reference]}
        assert caller.post(MAPS, {"metadata": metadata}).status == 201
        make_kind(caller)
        wait_for_collection(caller)
        assert caller.get(f"{MAPS}/dependent").status == 200

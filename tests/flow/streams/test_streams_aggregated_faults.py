"""Extension servers that are missing, dead or hostile: their own tenant's requests for their own group fail."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from alcove.api.objects import Object
from alcove.testing.aggregated_api import GROUP, NAME, REGISTRATIONS, ROOT, SLICES, THINGS, AggregatedApi
from alcove.testing.server import Caller, wait_until
from alcove.testing.webhook_server import issue

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


@pytest.fixture
def closed() -> Iterator[socket.socket]:
    """It never listens: whoever connects to its port is refused, and nobody else gets the port."""
    with socket.socket() as made:
        yield made


@pytest.mark.parametrize(
    ("how", "reason"),
    [("no service", "ServiceNotFound"), ("no port", "ServicePortError"), ("no slice", "EndpointsNotFound"),
     ("no endpoint", "MissingEndpoints"), ("nobody listens", "FailedDiscoveryCheck")],
)  # fmt: skip
async def test_what_is_not_available_says_why(
    api: AggregatedApi, closed: socket.socket, how: str, reason: str
) -> None:
    closed.bind(("127.0.0.1", 0))
    port = closed.getsockname()[1]
    if how != "no service":
        api.serve(port)
    if how == "no slice":
        api.caller.delete(f"{SLICES}/things-1")
    if how == "no endpoint":
        api.caller.patch(f"{SLICES}/things-1", {"endpoints": []})
    service = {"namespace": "default", "name": "things", "port": 444 if how == "no port" else 443}
    api.register(service=service)
    await asyncio.to_thread(api.await_condition, "False", reason)
    for path in (THINGS, ROOT):
        answer = await api.get(path)
        assert (answer.status, answer.json["message"]) == (503, "service unavailable")
    printed = await asyncio.to_thread(api.caller.kubectl, "get", "apiservice", NAME)
    assert f"False ({reason})" in printed


async def test_a_certificate_of_another_name_is_refused_unless_it_is_not_verified(api: AggregatedApi) -> None:
    certificate, key = issue(("another.default.svc",))
    api.certificate, api.key = certificate, key
    with api.extension() as extension:
        api.serve(extension.port)
        api.register()
        await asyncio.to_thread(api.await_condition, "False", "FailedDiscoveryCheck")
        message = api.caller.get(f"{REGISTRATIONS}/{NAME}").json["status"]["conditions"][0]["message"]
        assert "failed to verify certificate" in message and "things.default.svc" in message
        patch = {"spec": {"caBundle": None, "insecureSkipTLSVerify": True}}
        assert api.caller.patch(f"{REGISTRATIONS}/{NAME}", patch).status == 200
        await asyncio.to_thread(api.await_condition, "True", "Passed")
        assert (await api.get(THINGS)).status == 200


def _hang(handler: Any) -> bool:
    time.sleep(90)
    return True


def _reset(_handler: Any) -> bool:
    raise ConnectionResetError


def _endless_headers(handler: Any) -> bool:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
    while True:
        handler.wfile.write(b"X-More: " + b"y" * 1000 + b"\r\n")


def _gigabyte(handler: Any) -> bool:
    handler.send_response(200)
    handler.send_header("Content-Length", str(1 << 30))
    handler.end_headers()
    for _ in range(1 << 14):
        handler.wfile.write(b" " * (1 << 16))
    return True


def _html(handler: Any) -> bool:
    handler.send_response(200)
    handler.send_header("Content-Length", "6")
    handler.end_headers()
    handler.wfile.write(b"<html>")
    return True


@pytest.mark.parametrize("respond", [_hang, _reset, _endless_headers, _gigabyte, _html])
async def test_a_hostile_extension_server_fails_only_its_own_group(
    api: AggregatedApi, respond: Callable[[Any], bool]
) -> None:
    with api.extension() as extension:
        await api.ready(extension)
        extension.respond = respond
        started = time.monotonic()
        listed = (await api.get("/apis", accept=AGGREGATED)).json["items"]
        assert {each["metadata"]["name"]: each["versions"][0]["freshness"] for each in listed}[
            GROUP
        ] == "Stale"
        assert (await api.get("/openapi/v2")).status == 200
        assert time.monotonic() - started < 60
        others = await asyncio.to_thread(api.server.as_tenant("acme").get, "/apis", accept=AGGREGATED)
        assert all(each["versions"][0]["freshness"] == "Current" for each in others.json["items"])
        if respond in (_reset, _endless_headers):
            answer = await api.get(THINGS)
            assert answer.status == 503, answer.body
            assert answer.json["message"].startswith(
                ("error trying to reach service: ", "service unavailable")
            )


async def test_another_tenant_does_not_notice_requests_that_hang(api: AggregatedApi) -> None:
    other = AggregatedApi(api.server, api.rig)
    go_on = threading.Event()

    def hang(handler: Any) -> bool:
        if "/hang" in handler.path:
            go_on.wait(60)
        return False

    def ask(number: int) -> int:
        caller = Caller(api.caller.kubeconfig)
        try:
            return caller.get(f"{THINGS}/hang{number}").status
        finally:
            caller.close()

    with api.extension() as bad, other.extension() as good, ThreadPoolExecutor(12) as threads:
        bad.respond = hang
        await api.ready(bad)
        await other.ready(good)
        hanging = [threads.submit(ask, number) for number in range(12)]
        try:
            await asyncio.to_thread(
                wait_until, lambda: sum("/hang" in path for _, path, _ in bad.seen) == 12, 60.0
            )
            for _ in range(10):
                assert (await other.get(THINGS)).status == 200
            assert not any(each.done() for each in hanging)
        finally:
            go_on.set()
            assert {await asyncio.wrap_future(each) for each in hanging} == {404}


async def test_a_node_that_ends_in_the_middle_of_a_request_is_an_error_at_once(api: AggregatedApi) -> None:
    asked, go_on = threading.Event(), threading.Event()

    def hang(handler: Any) -> bool:
        if "/hang" in handler.path:
            asked.set()
            go_on.wait(60)
        return False

    with api.extension() as extension:
        await api.ready(extension)
        extension.respond = hang
        request = asyncio.create_task(api.get(f"{THINGS}/hang"))
        try:
            assert await asyncio.to_thread(asked.wait, 60)
            await api.rig.stop()
            answer = await asyncio.wait_for(request, 30)
            assert answer.status == 503, answer.body
            assert answer.json["message"].startswith("error trying to reach service: ")
        finally:
            go_on.set()


async def test_a_namespace_is_emptied_or_says_what_keeps_it(api: AggregatedApi) -> None:
    with api.extension() as extension:
        await api.ready(extension)
        for name in ("first", "second"):
            api.server.make_namespace(api.tenant, name)
        await api.post_later(THINGS.replace("default", "first"), {"metadata": {"name": "t"}})
        api.caller.delete("/api/v1/namespaces/first")
        await asyncio.to_thread(
            wait_until, lambda: api.caller.get("/api/v1/namespaces/first").status == 404, 60
        )
        assert extension.things == {}
        extension.respond = _reset
        api.caller.delete(f"{SLICES}/things-1")
        await asyncio.to_thread(api.await_condition, "False", "EndpointsNotFound")
        api.caller.delete("/api/v1/namespaces/second")

        def failure() -> Object:
            found = api.caller.get("/api/v1/namespaces/second").json["status"]["conditions"]
            return next(each for each in found if each["type"] == "NamespaceDeletionDiscoveryFailure")

        await asyncio.to_thread(wait_until, lambda: failure()["status"] == "True", 60)
        assert f"{GROUP}/v1: stale GroupVersion discovery" in failure()["message"]
        api.caller.delete(f"{REGISTRATIONS}/{NAME}")
        await asyncio.to_thread(
            wait_until, lambda: api.caller.get("/api/v1/namespaces/second").status == 404, 60
        )

"""Webhooks behind services: through the agent of the pod's node, with TLS to the webhook itself."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from alcove.agent.runtime.hollow import HollowRuntime
from alcove.agent.server import server as agent_server
from alcove.api.objects import Object
from alcove.testing.containers import ContainerLab
from alcove.testing.loopback_pods import LoopbackPod, LoopbackRig
from alcove.testing.server import Caller, LocalServer, ServerResponse, wait_until
from alcove.testing.webhook_server import WebhookServer, allowed, denied, patched

MAPS = "/api/v1/namespaces/default/configmaps"
REGISTRATION = "/apis/admissionregistration.k8s.io/v1"
NAME = "hook.default.svc"
HANGING = 12
POST = f'failed calling webhook "check.example.com": failed to call webhook: Post "https://{NAME}:443/v?timeout=30s": '
_NUMBERS = count()
_RULE = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}


class Webhooks:
    """One tenant, nodes on this machine, and a service `hook` whose pods are on them."""

    def __init__(self, server: LocalServer, folder: Path) -> None:
        self.server = server
        self._lab = ContainerLab(HollowRuntime(), folder)
        self.tenant = f"hooked{next(_NUMBERS)}"
        self.caller: Caller = server.make_tenant(self.tenant)
        self.rigs: list[LoopbackRig] = []

    async def node(self) -> LoopbackRig:
        rig = LoopbackRig(self.server, self._lab, f"hooks-{next(_NUMBERS)}")
        self.rigs.append(await rig.__aenter__())
        return rig

    def serve(self, port: int, *rigs: LoopbackRig) -> list[LoopbackPod]:
        """The service and its EndpointSlice as controllers would make it, with a pod on each node."""
        pods = [
            rig.place(self.tenant, f"p{number}", [], f"10.0.0.{5 + number}")
            for number, rig in enumerate(rigs)
        ]
        ports = [{"name": "https", "port": 443, "targetPort": port}]
        service = {"metadata": {"name": "hook"}, "spec": {"ports": ports, "selector": {"app": "hook"}}}
        self._post("/api/v1/namespaces/default/services", service)
        slice_ = {
            "metadata": {"name": "hook-1", "labels": {"kubernetes.io/service-name": "hook"}},
            "addressType": "IPv4",
            "ports": [{"name": "https", "port": port}],
            "endpoints": [
                {
                    "addresses": [f"10.0.0.{5 + number}"],
                    "targetRef": {"kind": "Pod", "namespace": "default", "name": f"p{number}"},
                }
                for number in range(len(pods))
            ],
        }
        self._post("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", slice_)
        return pods

    def install(self, authority: str, kind: str = "validating", **fields: Any) -> None:
        reference = {"namespace": "default", "name": "hook", "path": "/v"}
        hook = {
            "name": "check.example.com",
            "rules": [_RULE],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "timeoutSeconds": 30,
            "clientConfig": {"service": reference, "caBundle": authority},
            **fields,
        }
        body = {"metadata": {"name": kind}, "webhooks": [hook]}
        self._post(f"{REGISTRATION}/{kind}webhookconfigurations", body)

    def _post(self, path: str, body: Object) -> None:
        answer = self.caller.post(path, body)
        assert answer.status == 201, answer.body

    async def create(self, name: str = "m") -> ServerResponse:
        return await asyncio.to_thread(self.caller.post, MAPS, {"metadata": {"name": name}})


@pytest.fixture
async def hooks(server: LocalServer, folder: Path) -> AsyncIterator[Webhooks]:
    made = Webhooks(server, folder)
    yield made
    for rig in made.rigs:
        rig.forget_pods()
        await rig.stop()


def message(answer: ServerResponse) -> str:
    assert answer.status == 500, answer.body
    return str(answer.json["message"]).removeprefix("Internal error occurred: ")


async def test_a_service_is_called_by_its_name_over_one_connection(hooks: Webhooks) -> None:
    with WebhookServer(lambda _path, review: allowed(review, warnings=["seen"]), NAME) as webhook:
        [pod] = hooks.serve(webhook.port, await hooks.node())
        hooks.install(webhook.authority)
        for number in range(10):
            answer = await hooks.create(f"m{number}")
            assert answer.status == 201, answer.body
        assert (webhook.connections, len(webhook.seen), pod.dialled) == (1, 10, [webhook.port])
        assert webhook.paths[0] == "/v?timeout=30s"


async def test_verdicts_and_changes_pass(hooks: Webhooks) -> None:
    def respond(_path: str, review: Object) -> Any:
        if review["request"]["name"] == "bad":
            return denied(review, message="not this one")
        return patched(review, {"op": "add", "path": "/data", "value": {"by": "pod"}})

    with WebhookServer(respond, NAME) as webhook:
        hooks.serve(webhook.port, await hooks.node())
        hooks.install(webhook.authority, "mutating")
        answer = await hooks.create()
        assert answer.json["data"] == {"by": "pod"}
        refused = await hooks.create("bad")
        assert refused.status == 400 and "not this one" in refused.json["message"]


async def test_a_certificate_of_another_name_is_refused(hooks: Webhooks) -> None:
    with WebhookServer(lambda _path, review: allowed(review), "another.default.svc") as webhook:
        hooks.serve(webhook.port, await hooks.node())
        hooks.install(webhook.authority)
        found = message(await hooks.create())
        assert found.startswith(f"{POST}tls: failed to verify certificate: ") and NAME in found
        assert not webhook.seen


async def test_without_ready_endpoints_the_message_says_so(hooks: Webhooks) -> None:
    with WebhookServer(lambda _path, review: allowed(review), NAME) as webhook:
        hooks.serve(webhook.port)
        hooks.install(webhook.authority)
        assert message(await hooks.create()) == f'{POST}no endpoints available for service "hook"'


async def test_a_port_that_nobody_listens_on(hooks: Webhooks) -> None:
    with socket.socket() as closed:  # Bound, so that nobody else gets the port.
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        hooks.serve(port, await hooks.node())
        with WebhookServer(lambda _path, review: allowed(review), NAME) as webhook:
            hooks.install(webhook.authority)
        found = message(await hooks.create())
    assert found == f"{POST}dial tcp 10.0.0.5:{port}: connect: connection refused"


def _reset(_path: str, _review: Object) -> Any:
    raise ConnectionResetError


def _hang(_path: str, _review: Object) -> Any:
    time.sleep(10)
    return 200


@pytest.mark.parametrize(
    ("respond", "seconds", "expected"),
    [
        (_hang, 1, f"{POST.replace('30s', '1s')}context deadline exceeded"),
        (_reset, 30, f"{POST}EOF"),
        (
            lambda _path, _review: 302,
            30,
            "failed to call webhook: the webhook answered with status 302, not 200",
        ),
        (lambda _path, _review: b"<html>", 30, "received invalid webhook response: it is not JSON"),
    ],
    ids=["hangs", "resets", "redirects", "html"],
)
async def test_a_webhook_that_fails(
    hooks: Webhooks, respond: Callable[[str, Object], Any], seconds: int, expected: str
) -> None:
    with WebhookServer(respond, NAME) as webhook:
        hooks.serve(webhook.port, await hooks.node())
        hooks.install(webhook.authority, timeoutSeconds=seconds)
        assert expected in message(await hooks.create())
        hooks.caller.delete(f"{REGISTRATION}/validatingwebhookconfigurations/validating")
        hooks.install(webhook.authority, timeoutSeconds=seconds, failurePolicy="Ignore")
        assert (await hooks.create()).status == 201


async def test_a_webhook_that_answers_a_gigabyte_is_cut_off(hooks: Webhooks) -> None:
    sent = [0]

    def gigabyte() -> Iterator[bytes]:
        for _ in range(1 << 14):
            sent[0] += 1 << 16
            yield b" " * (1 << 16)

    with WebhookServer(lambda _path, _review: gigabyte(), NAME) as webhook:
        hooks.serve(webhook.port, await hooks.node())
        hooks.install(webhook.authority, timeoutSeconds=30)
        found = message(await hooks.create())
        assert found.endswith("the webhook's response has more than 3145728 bytes")
    assert sent[0] < 64 << 20


async def test_a_node_that_ends_in_the_middle_of_a_call_is_an_error_at_once(hooks: Webhooks) -> None:
    asked, go_on = threading.Event(), threading.Event()

    def respond(_path: str, review: Object) -> Any:
        asked.set()
        go_on.wait(60)
        return allowed(review)

    with WebhookServer(respond, NAME) as webhook:
        rig = await hooks.node()
        hooks.serve(webhook.port, rig)
        hooks.install(webhook.authority, timeoutSeconds=30)
        call = asyncio.create_task(hooks.create())
        assert await asyncio.to_thread(asked.wait, 60)
        started = time.monotonic()
        await rig.stop()
        assert "failed calling webhook" in message(await call)
        assert time.monotonic() - started < 25
        go_on.set()


async def test_another_node_serves_when_one_is_gone(hooks: Webhooks) -> None:
    with WebhookServer(lambda _path, review: allowed(review), NAME) as webhook:
        first, second = await hooks.node(), await hooks.node()
        hooks.serve(webhook.port, first, second)
        hooks.install(webhook.authority, timeoutSeconds=30)
        for number in range(4):
            assert (await hooks.create(f"before{number}")).status == 201
        await first.stop()
        for number in range(12):
            answer = await hooks.create(f"after{number}")
            assert answer.status == 201, answer.body


async def test_another_tenant_does_not_notice_webhooks_that_hang(
    server: LocalServer, hooks: Webhooks, folder: Path
) -> None:
    go_on = threading.Event()

    def hang(_path: str, review: Object) -> Any:
        go_on.wait(60)
        return allowed(review)

    other = Webhooks(server, folder)
    with (
        WebhookServer(hang, NAME) as bad,
        WebhookServer(lambda _path, review: allowed(review), NAME) as good,
        ThreadPoolExecutor(HANGING) as threads,
    ):
        rig = await hooks.node()
        hooks.serve(bad.port, rig)
        hooks.install(bad.authority, timeoutSeconds=30)
        other.serve(good.port, rig)
        other.install(good.authority, timeoutSeconds=30)

        def hang_one(number: int) -> None:
            caller = Caller(hooks.caller.kubeconfig)
            caller.post(MAPS, {"metadata": {"name": f"h{number}"}})
            caller.close()

        hanging = [threads.submit(hang_one, number) for number in range(HANGING)]
        try:
            await asyncio.to_thread(wait_until, lambda: len(bad.seen) == HANGING)
            for number in range(10):
                answer = await other.create(f"m{number}")
                assert answer.status == 201, answer.body
            assert not any(each.done() for each in hanging)
        finally:
            go_on.set()
            await asyncio.gather(*map(asyncio.wrap_future, hanging))


async def test_a_tenant_leaves_connections_of_a_node_to_others(
    server: LocalServer, hooks: Webhooks, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_server, "CONNECTIONS_MAX", 8)
    go_on = threading.Event()

    def hang(_path: str, review: Object) -> Any:
        go_on.wait(60)
        return allowed(review)

    def call(number: int) -> str:
        caller = Caller(hooks.caller.kubeconfig)
        answer = caller.post(MAPS, {"metadata": {"name": f"h{number}"}})
        caller.close()
        return str(answer.json.get("message", ""))

    other = Webhooks(server, folder)
    with (
        WebhookServer(hang, NAME) as bad,
        WebhookServer(lambda _path, review: allowed(review), NAME) as good,
        ThreadPoolExecutor(HANGING) as threads,
    ):
        rig = await hooks.node()
        hooks.serve(bad.port, rig)
        hooks.install(bad.authority, timeoutSeconds=30)
        other.serve(good.port, rig)
        other.install(good.authority, timeoutSeconds=30)
        hanging = [threads.submit(call, number) for number in range(HANGING)]
        try:
            # Whose connection it is, the node knows only when it has read a request: all of them are refused or hang by now.
            def are_settled() -> bool:
                return len(bad.seen) + sum(each.done() for each in hanging) == HANGING

            await asyncio.to_thread(wait_until, are_settled)
            answer = await other.create()
            assert answer.status == 201, answer.body
            assert len(bad.seen) <= 5
        finally:
            go_on.set()
            messages = await asyncio.gather(*map(asyncio.wrap_future, hanging))
    refused = "too many open connections to the node; close some or retry later"
    assert 0 < sum(each.endswith(refused) for each in messages) < HANGING
    assert not any("deadline" in each for each in messages), "nobody is left without an answer"


async def test_a_custom_resource_is_converted_by_a_service(hooks: Webhooks) -> None:
    def respond(_path: str, review: Object) -> Any:
        request = review["request"]
        version = request["desiredAPIVersion"]
        converted = [{**each, "apiVersion": version} for each in request["objects"]]
        response = {
            "uid": request["uid"],
            "result": {"status": "Success"},
            "convertedObjects": converted,
        }
        return {"apiVersion": review["apiVersion"], "kind": "ConversionReview", "response": response}

    with WebhookServer(respond, NAME) as webhook:
        hooks.serve(webhook.port, await hooks.node())
        client = {"service": {"namespace": "default", "name": "hook"}, "caBundle": webhook.authority}
        schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
        names = {"plural": "things", "singular": "thing", "kind": "Thing"}
        conversion = {
            "strategy": "Webhook",
            "webhook": {"clientConfig": client, "conversionReviewVersions": ["v1"]},
        }
        versions = [
            {"name": name, "served": True, "storage": name == "v1", "schema": schema} for name in ("v1", "v2")
        ]
        spec = {
            "group": "example.com",
            "names": names,
            "scope": "Namespaced",
            "versions": versions,
            "conversion": conversion,
        }
        crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        answer = hooks.caller.post(crds, {"metadata": {"name": "things.example.com"}, "spec": spec})
        assert answer.status == 201, answer.body
        path = "/apis/example.com/{}/namespaces/default/things"

        def make() -> bool:
            body = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t"}}
            return hooks.caller.post(path.format("v1"), body).status == 201

        await asyncio.to_thread(wait_until, make)
        answer = await asyncio.to_thread(hooks.caller.get, f"{path.format('v2')}/t")
        assert (answer.status, answer.json["apiVersion"]) == (200, "example.com/v2")
        assert webhook.seen

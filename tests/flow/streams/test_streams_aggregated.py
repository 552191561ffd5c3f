"""Aggregated APIs: through the agent of the extension server's node, with the caller's identity in headers."""

from __future__ import annotations

import asyncio
import base64
import http.client
import json
import socket
import ssl
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from alcove.agent.runtime.hollow import HollowRuntime
from alcove.api.objects import Object
from alcove.cli.connection import load
from alcove.controllers.apiservices import ApiServiceAvailability
from alcove.controllers.namespaces import NamespaceController
from alcove.testing.containers import ContainerLab
from alcove.testing.controllers import RunningControllers
from alcove.testing.extension_server import ExtensionServer
from alcove.testing.loopback_pods import LoopbackRig
from alcove.testing.server import Caller, LocalServer, ServerResponse, wait_until
from alcove.testing.webhook_server import issue

REGISTRATIONS = "/apis/apiregistration.k8s.io/v1/apiservices"
TRUST = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
BINDING: Object = {
    "metadata": {"name": "things-reads-trust"},
    "roleRef": {
        "apiGroup": "rbac.authorization.k8s.io",
        "kind": "Role",
        "name": "extension-apiserver-authentication-reader",
    },
    "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": "default"}],
}
BINDINGS = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
GROUP = "things.example.com"
ROOT = f"/apis/{GROUP}/v1"
THINGS = f"{ROOT}/namespaces/default/things"
NAME = f"v1.{GROUP}"
_NUMBERS = count()


class Aggregated:
    """A tenant with a node on this machine, and a service `things` whose pod is on it."""

    def __init__(self, server: LocalServer, rig: LoopbackRig) -> None:
        self.tenant = f"aggregated{next(_NUMBERS)}"
        self.caller: Caller = server.make_tenant(self.tenant)
        self.server = server
        self.rig = rig
        # A tenant has it once an extension server may read it.
        assert self.caller.get(TRUST).status == 404
        self.post(f"{RBAC}/namespaces/kube-system/rolebindings", BINDING)
        self.authority = self.caller.get(TRUST).json["data"]["requestheader-client-ca-file"].encode()
        self.certificate, self.key = issue(("things.default.svc",))

    def extension(self, group: str = GROUP) -> ExtensionServer:
        return ExtensionServer(group, self.certificate, self.key, self.authority)

    def serve(self, port: int, address: str = "10.0.0.5") -> None:
        """The service and its EndpointSlice as controllers would make it."""
        self.rig.place(self.tenant, "p0", [], address)
        spec = {"ports": [{"name": "https", "port": 443, "targetPort": port}], "selector": {"app": "things"}}
        self.post("/api/v1/namespaces/default/services", {"metadata": {"name": "things"}, "spec": spec})
        reference = {"kind": "Pod", "namespace": "default", "name": "p0"}
        slice_ = {
            "metadata": {"name": "things-1", "labels": {"kubernetes.io/service-name": "things"}},
            "addressType": "IPv4",
            "ports": [{"name": "https", "port": port}],
            "endpoints": [{"addresses": [address], "targetRef": reference}],
        }
        self.post("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", slice_)

    def register(self, group: str = GROUP, version: str = "v1", **spec: Any) -> None:
        whole = {
            "group": group,
            "version": version,
            "groupPriorityMinimum": 500,
            "versionPriority": 10,
            "service": {"namespace": "default", "name": "things"},
            "caBundle": base64.b64encode(self.certificate).decode(),
            **spec,
        }
        self.post(REGISTRATIONS, {"metadata": {"name": f"{version}.{group}"}, "spec": whole})

    def post(self, path: str, body: Object) -> Object:
        answer = self.caller.post(path, body)
        assert answer.status == 201, answer.body
        return answer.json  # type: ignore[no-any-return]

    def condition(self, name: str = NAME) -> tuple[str, str]:
        status = self.caller.get(f"{REGISTRATIONS}/{name}").json["status"]
        [found] = [each for each in status["conditions"] if each["type"] == "Available"]
        return found["status"], found["reason"]

    def await_condition(self, *wanted: str) -> None:
        wait_until(lambda: self.condition() == wanted, 60)

    async def get(self, path: str, **headers: str) -> ServerResponse:
        return await asyncio.to_thread(self.caller.get, path, **headers)

    async def post_later(self, path: str, body: Any, **headers: str) -> ServerResponse:
        return await asyncio.to_thread(self.caller.request, "POST", path, body, **headers)

    async def ready(self, extension: ExtensionServer) -> None:
        self.serve(extension.port)
        self.register(extension.group)
        await asyncio.to_thread(wait_until, lambda: self.condition(f"v1.{extension.group}")[0] == "True", 60)


@pytest.fixture(scope="module", autouse=True)
def controllers(server: LocalServer) -> Iterator[None]:
    with RunningControllers(server.admin_kubeconfig, (ApiServiceAvailability, NamespaceController)):
        yield


@pytest.fixture
async def api(server: LocalServer, folder: Path) -> AsyncIterator[Aggregated]:
    async with LoopbackRig(server, ContainerLab(HollowRuntime(), folder), f"things-{next(_NUMBERS)}") as rig:
        made = Aggregated(server, rig)
        yield made
        rig.forget_pods()
        for each in made.caller.get(REGISTRATIONS).json["items"]:
            if each["spec"].get("service"):
                made.caller.delete(f"{REGISTRATIONS}/{each['metadata']['name']}")


async def test_built_in_group_versions_are_listed_and_cannot_be_taken(api: Aggregated) -> None:
    printed = api.caller.kubectl("get", "apiservices", "v1.apps", "v1.")
    assert printed.count("Local") == 2 and printed.count("True") == 2
    listed = api.caller.get(REGISTRATIONS).json
    assert all(each["spec"].get("service") is None for each in listed["items"])
    refused = [
        api.caller.delete(f"{REGISTRATIONS}/v1.apps"),
        api.caller.patch(f"{REGISTRATIONS}/v1.apps", {"spec": {"service": {"namespace": "n", "name": "s"}}}),
        api.caller.patch(f"{REGISTRATIONS}/v1.apps/status", {"status": {"conditions": []}}),
        api.caller.post(REGISTRATIONS, {"metadata": {"name": "v1."}, "spec": {
            "version": "v1", "groupPriorityMinimum": 1, "versionPriority": 1,
            "service": {"namespace": "n", "name": "s"}}}),
    ]  # fmt: skip
    assert [each.status for each in refused] == [403] * 4, [each.body for each in refused]
    assert 'the group version "v1" is served by this API server itself' in refused[-1].json["message"]
    assert api.caller.delete(REGISTRATIONS).status == 200
    assert len(api.caller.get(REGISTRATIONS).json["items"]) == len(listed["items"])


async def test_requests_reach_the_extension_server_with_the_callers_identity(api: Aggregated) -> None:
    with api.extension() as extension:
        await api.ready(extension)
        forged = {"x_remote_user": "root", "x_remote_group": "system:masters", "X_Remote_Extra_a": "b"}
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
        staff = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "staff"}
        api.post(BINDINGS, {"metadata": {"name": "staff"}, "roleRef": role, "subjects": [staff]})
        body = b"x" * (1 << 20)
        answer = await api.post_later(f"{THINGS}/a/echo?dryRun=All", body, **forged, impersonate_user="eve",
                                      impersonate_group="staff")  # fmt: skip
        echo = answer.json
        assert (answer.status, echo["method"], echo["length"]) == (200, "POST", len(body))
        assert echo["path"] == f"{THINGS}/a/echo?dryRun=All"
        assert (echo["user"], echo["headers"]["x-remote-user"]) == ("eve", ["eve"])
        assert echo["headers"]["x-remote-group"] == ["staff", "system:authenticated"]
        assert not {"authorization", "impersonate-user", "x-remote-extra-a"} & set(echo["headers"])
        assert echo["headers"]["host"] == ["things.default.svc:443"]
        system, path = api.server.system, f"/tenants/{api.tenant}{THINGS}/a/echo"
        ring0 = (await asyncio.to_thread(system.get, path)).json
        assert ring0["user"] == "system:ring0:admin"
        assert ring0["headers"]["x-remote-group"] == ["system:masters", "system:authenticated"]


async def test_all_verbs_over_reused_connections(api: Aggregated) -> None:
    with api.extension() as extension:
        await api.ready(extension)
        before = extension.connections
        for number in range(10):
            made = await api.post_later(THINGS, {"metadata": {"name": f"t{number}"}})
            assert made.status == 201, made.body
            assert (await api.get(f"{THINGS}/t{number}")).json["kind"] == "Thing"
        assert extension.connections <= before + 2
        assert (await api.get(f"{THINGS}/none")).status == 404
        head = await asyncio.to_thread(api.caller.request, "HEAD", f"{THINGS}/none")
        assert (head.status, head.body) == (404, b"")
        assert (await asyncio.to_thread(api.caller.delete, f"{THINGS}/t0")).status == 200
        assert len((await api.get(THINGS)).json["items"]) == 9
        assert (await asyncio.to_thread(api.caller.delete, THINGS)).status == 200
        assert (await api.get(THINGS)).json["items"] == []


async def test_a_watch_is_streamed_as_it_happens(api: Aggregated) -> None:
    with api.extension() as extension:
        await api.ready(extension)
        events: asyncio.Queue[Object] = asyncio.Queue()
        loop, stop = asyncio.get_running_loop(), threading.Event()

        def follow() -> None:
            connection = raw(api.caller)
            connection.request("GET", f"{THINGS}?watch=true")
            with connection.getresponse() as response:
                while not stop.is_set() and (line := response.readline()):
                    loop.call_soon_threadsafe(events.put_nowait, json.loads(line))
            connection.close()

        following = asyncio.create_task(asyncio.to_thread(follow))
        for name in ("a", "b"):
            await api.post_later(THINGS, {"metadata": {"name": name}})
            event = await asyncio.wait_for(events.get(), 30)
            assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", name)
        stop.set()
        extension.change("BOOKMARK", {})
        await following


async def test_an_upgrade_is_relayed(api: Aggregated) -> None:
    with api.extension() as extension:
        await api.ready(extension)

        def talk() -> bytes:
            connection = raw(api.caller)
            connection.putrequest("GET", f"{THINGS}/a/shell")
            for name, value in {"Connection": "Upgrade", "Upgrade": "echo"}.items():
                connection.putheader(name, value)
            connection.endheaders()
            assert connection.sock is not None
            head = b""
            while b"\r\n\r\n" not in head:
                head += connection.sock.recv(4096)
            assert head.startswith(b"HTTP/1.1 101"), head
            connection.sock.sendall(b"hello")
            received = connection.sock.recv(4096)
            connection.close()
            return received

        assert await asyncio.to_thread(talk) == b"hello"


def raw(caller: Caller) -> http.client.HTTPSConnection:
    user = load(caller.kubeconfig)
    host, _, port = user.server.removeprefix("https://").partition("/")[0].partition(":")
    context = ssl.create_default_context(cadata=user.ca_pem.decode())
    context.load_cert_chain(caller.kubeconfig.with_suffix(".pem"))
    return http.client.HTTPSConnection(host, int(port), context=context, timeout=60)


async def test_who_may_not_is_refused_before_the_extension_server_is_asked(api: Aggregated) -> None:
    with api.extension() as extension:
        await api.ready(extension)
        nobody = api.server.as_tenant(api.tenant, "nobody")
        asked = len(extension.seen)
        answer = await asyncio.to_thread(nobody.get, THINGS)
        assert answer.status == 403 and 'cannot list resource "things" in API group' in answer.json["message"]
        other = api.server.as_tenant("acme")
        assert (await asyncio.to_thread(other.get, f"/tenants/{api.tenant}{THINGS}")).status == 403
        assert (await asyncio.to_thread(other.get, THINGS)).status == 404
        assert [each for each in extension.seen[asked:] if each[1].endswith("/things")] == []


async def test_a_front_proxys_certificate_is_of_no_use_elsewhere(api: Aggregated, folder: Path) -> None:
    """It is of an authority of the tenant's own, with a key of its own."""
    other = Aggregated(api.server, api.rig)
    assert other.authority != api.authority
    mine, others = (
        ssl.create_default_context(cadata=each.authority.decode()).get_ca_certs(binary_form=True)
        for each in (api, other)
    )
    assert mine != others
    # The other tenant's extension server does not know this tenant's front proxy, and answers 401.
    with ExtensionServer(GROUP, api.certificate, api.key, other.authority) as extension:
        api.serve(extension.port)
        api.register()
        await asyncio.to_thread(api.await_condition, "False", "FailedDiscoveryCheck")
    data = api.caller.get(TRUST).json["data"]
    cluster = (api.server.directory / "pki" / "ca.crt").read_text()
    assert cluster not in data.values()


@pytest.mark.parametrize(
    ("how", "reason"),
    [("no service", "ServiceNotFound"), ("no port", "ServicePortError"), ("no slice", "EndpointsNotFound"),
     ("no endpoint", "MissingEndpoints"), ("nobody listens", "FailedDiscoveryCheck")],
)  # fmt: skip
async def test_what_is_not_available_says_why(api: Aggregated, how: str, reason: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
    if how != "no service":
        api.serve(port)
    if how == "no slice":
        api.caller.delete(f"{slices}/things-1")
    if how == "no endpoint":
        api.caller.patch(f"{slices}/things-1", {"endpoints": []})
    service = {"namespace": "default", "name": "things", "port": 444 if how == "no port" else 443}
    api.register(service=service)
    await asyncio.to_thread(api.await_condition, "False", reason)
    for path in (THINGS, ROOT):
        answer = await api.get(path)
        assert (answer.status, answer.json["message"]) == (503, "service unavailable")
    printed = await asyncio.to_thread(api.caller.kubectl, "get", "apiservice", NAME)
    assert f"False ({reason})" in printed


async def test_a_certificate_of_another_name_is_refused_unless_it_is_not_verified(api: Aggregated) -> None:
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


async def test_discovery_has_the_group_alive_or_dead(api: Aggregated) -> None:
    with api.extension() as extension:
        await api.ready(extension)
        api.register("dead.example.com", service={"namespace": "default", "name": "none"})
        groups = {each["name"]: each for each in (await api.get("/apis")).json["groups"]}
        assert {GROUP, "dead.example.com"} == set(list(groups)[-2:])
        assert groups[GROUP]["preferredVersion"] == {"groupVersion": f"{GROUP}/v1", "version": "v1"}
        assert (await api.get(f"/apis/{GROUP}")).json["name"] == GROUP
        assert (await api.get(ROOT)).json["resources"][0]["name"] == "things"
        listed = (await api.get("/apis", accept=AGGREGATED)).json["items"]
        found = {each["metadata"]["name"]: each["versions"][0] for each in listed}
        assert found["dead.example.com"] == {"version": "v1", "freshness": "Stale"}
        [thing] = found[GROUP]["resources"]
        assert (found[GROUP]["freshness"], thing["resource"], thing["scope"]) == (
            "Current",
            "things",
            "Namespaced",
        )
        assert [each["subresource"] for each in thing["subresources"]] == ["echo"]
        printed = await asyncio.to_thread(api.caller.kubectl, "api-resources", check=False)
        assert "things" in printed and "deployments" in printed
        await asyncio.to_thread(api.caller.kubectl, "create", "-f", "-", "--validate=false",
                                stdin=json.dumps({"apiVersion": f"{GROUP}/v1", "kind": "Thing", "metadata": {"name": "k"}}))  # fmt: skip
        assert "k" in await asyncio.to_thread(api.caller.kubectl, "get", "tg", "-o", "name")
        others = {each["name"] for each in api.server.as_tenant("acme").get("/apis").json["groups"]}
        assert GROUP not in others


async def test_openapi_has_what_belongs_to_the_group(api: Aggregated) -> None:
    with api.extension() as extension:
        await api.ready(extension)
        index = (await api.get("/openapi/v3")).json["paths"]
        assert index[f"apis/{GROUP}/v1"] == {"serverRelativeURL": f"/openapi/v3{ROOT}?hash=1234"}
        assert "Thing" in str((await api.get(f"/openapi/v3{ROOT}?hash=1234")).json["components"])
        whole = (await api.get("/openapi/v2")).json
        assert (
            "com.example.things.v1.Thing" in whole["definitions"]
            and f"{ROOT}/namespaces/{{namespace}}/things" in whole["paths"]
        )
        assert "io.k8s.api.core.v1.Pod" in whole["definitions"] and "/apis/apps/v1/lies" not in whole["paths"]
        explained = await asyncio.to_thread(api.caller.kubectl, "explain", "things.size")
        assert "How large it is." in explained


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
    api: Aggregated, respond: Callable[[Any], bool]
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


async def test_another_tenant_does_not_notice_requests_that_hang(api: Aggregated) -> None:
    other = Aggregated(api.server, api.rig)
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


async def test_a_node_that_ends_in_the_middle_of_a_request_is_an_error_at_once(api: Aggregated) -> None:
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


async def test_a_namespace_is_emptied_or_says_what_keeps_it(api: Aggregated) -> None:
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
        api.caller.delete("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/things-1")
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

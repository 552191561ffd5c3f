"""HTTP through the API server: to pods, to the ready pods of services, to nodes."""

from __future__ import annotations

import asyncio
import hashlib
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from yarl import URL

from alcove.agent.runtime.hollow import HollowRuntime
from alcove.api.ids import SYSTEM
from alcove.api.objects import Object
from alcove.apiserver.auth.certificates import CertificateAuthority
from alcove.apiserver.auth.subjects import Subject
from alcove.testing.containers import ContainerLab
from alcove.testing.loopback_pods import LoopbackPod, LoopbackRig
from alcove.testing.server import Caller, LocalServer

_NUMBERS = count()
Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Rig(LoopbackRig):
    def serve(self, tenant: str, name: str, pods: list[LoopbackPod], port: int, ready: bool = True) -> None:
        """A service with the endpoints that controllers would make for it."""
        base = f"/api/v1/tenants/{tenant}/namespaces/default"
        service = {
            "metadata": {"name": name},
            "spec": {"ports": [{"name": "web", "port": 80, "targetPort": port}], "selector": {"a": "b"}},
        }
        assert self.server.system.post(f"{base}/services", service).status == 201
        addresses = [
            {
                "ip": "10.0.0.5",
                "targetRef": {
                    "kind": "Pod",
                    "name": each.key.name,
                    "namespace": "default",
                    "uid": each.key.uid,
                },
            }
            for each in pods
        ]
        subset = {
            "addresses" if ready else "notReadyAddresses": addresses,
            "ports": [{"name": "web", "port": port, "protocol": "TCP"}],
        }
        body = {"metadata": {"name": name}, "subsets": [subset] if addresses else []}
        assert self.server.system.post(f"{base}/endpoints", body).status == 201


@pytest.fixture
async def rig(server: LocalServer, folder: Path) -> AsyncIterator[Rig]:
    async with Rig(server, ContainerLab(HollowRuntime(), folder), f"proxied-{next(_NUMBERS)}") as started:
        yield started
        started.forget_pods()
        for tenant in ("acme", "beta"):
            server.system.request("DELETE", f"/api/v1/tenants/{tenant}/namespaces/default/services/web")
            server.system.request("DELETE", f"/api/v1/tenants/{tenant}/namespaces/default/endpoints/web")


def _app() -> web.Application:
    async def echo(request: web.Request) -> web.Response:
        body = await request.read()
        result = {
            "method": request.method,
            "path": request.raw_path,
            "headers": {name.lower(): value for name, value in request.headers.items()},
            "body": hashlib.md5(body).hexdigest(),
            "length": len(body),
        }
        return web.json_response(result, headers={"X-Reply": "yes", "Access-Control-Allow-Origin": "*"})

    async def cookies(_request: web.Request) -> web.Response:
        response = web.Response(text="both")
        response.set_cookie("a", "1")
        response.set_cookie("b", "2")
        return response

    async def elsewhere(_request: web.Request) -> web.Response:
        return web.Response(status=302, headers={"Location": "/echo?x=1"})

    async def nothing(_request: web.Request) -> web.Response:
        return web.Response(status=204)

    async def talks(request: web.Request) -> web.WebSocketResponse:
        made = web.WebSocketResponse(protocols=["talk"])
        await made.prepare(request)
        async for message in made:
            await made.send_str(f"you said {message.data}")
        return made

    async def page(request: web.Request) -> web.Response:
        response = web.Response(text='<a href="/rewriteme">test</a>', content_type="text/html")
        if "gzip" in request.query:
            response.enable_compression(web.ContentCoding.gzip)
        return response

    async def long_page(_request: web.Request) -> web.Response:
        return web.Response(text='<a href="/x">' * 100_000, content_type="text/html")

    app = web.Application(client_max_size=1 << 30)
    app.router.add_get("/page", page)
    app.router.add_get("/long-page", long_page)
    app.router.add_get("/cookies", cookies)
    app.router.add_get("/deep/elsewhere", elsewhere)
    app.router.add_get("/nothing", nothing)
    app.router.add_get("/talks", talks)
    app.router.add_route("*", "/{rest:.*}", echo)
    return app


@asynccontextmanager
async def serving(tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    runner = web.AppRunner(_app())
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


@asynccontextmanager
async def answering(handler: Handler) -> AsyncIterator[int]:
    """A backend that sends exactly the given bytes."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        try:
            await handler(reader, writer)
        finally:
            writer.close()

    listener = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with listener:
        yield listener.sockets[0].getsockname()[1]


@asynccontextmanager
async def session(server: LocalServer, caller: Caller) -> AsyncIterator[aiohttp.ClientSession]:
    context = ssl.create_default_context(cafile=str(server.directory / "pki" / "ca.crt"))
    context.load_cert_chain(caller.kubeconfig.with_suffix(".pem"))
    host, port = server.address
    connector = aiohttp.TCPConnector(ssl=context)
    timeout = aiohttp.ClientTimeout(total=60)
    base = f"https://{host}:{port}"
    async with aiohttp.ClientSession(base, connector=connector, timeout=timeout) as made:
        yield made


def pod_url(name: str) -> str:
    return f"/api/v1/namespaces/default/pods/{name}/proxy"


def service_url(name: str) -> str:
    return f"/api/v1/namespaces/default/services/{name}/proxy"


async def test_a_pod_is_asked_what_the_client_asks(rig: Rig, server: LocalServer) -> None:
    async with serving() as port, session(server, server.as_tenant("acme")) as client:
        rig.place("acme", "web", [])
        url = f"{pod_url(f'web:{port}')}/some/%C3%A4//a%2Fb/path/?q=%20a&q=b"
        headers = {"X-Own": "1", "X-Remote-User": "root", "Connection": "X-Own"}
        async with client.post(URL(url, encoded=True), data=b"hello", headers=headers) as answer:
            echo = await answer.json()
            assert answer.status == 200
            assert answer.headers["X-Reply"] == "yes"
            assert "Access-Control-Allow-Origin" not in answer.headers
            assert int(answer.headers["Content-Length"]) > 0
        assert echo["method"] == "POST"
        assert echo["path"] == "/some/%C3%A4//a%2Fb/path/?q=%20a&q=b"
        assert (echo["length"], echo["body"]) == (5, hashlib.md5(b"hello").hexdigest())
        assert echo["headers"]["x-forwarded-uri"].endswith(f"/web:{port}/proxy/some/%C3%A4//a%2Fb/path/")
        assert echo["headers"]["x-forwarded-proto"] == "https"
        assert not {"x-remote-user", "x-own"} & echo["headers"].keys()


async def test_the_callers_token_stays_here(rig: Rig, server: LocalServer) -> None:
    path = "/api/v1/tenants/acme/namespaces/default/serviceaccounts/default/token"
    token = server.system.post(path, {"spec": {}}).json["status"]["token"]
    binding = {
        "metadata": {"name": "default-admin"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "admin-role"},
        "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": "default"}],
    }
    rbac = "/apis/rbac.authorization.k8s.io/v1/tenants/acme/clusterrolebindings"
    assert server.system.post(rbac, binding).status in (201, 409)
    async with serving() as port:
        rig.place("acme", "web", [])
        caller = server.anonymous(token)
        response = await asyncio.to_thread(caller.get, f"{pod_url(f'web:{port}')}/x")
        assert response.status == 200, response.body
        assert "authorization" not in response.json["headers"]


async def test_every_method_goes_through(rig: Rig, server: LocalServer) -> None:
    async with serving() as port, session(server, server.as_tenant("acme")) as client:
        rig.place("acme", "web", [])
        for method in ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"):
            async with client.request(method, f"{pod_url(f'web:{port}')}/x") as answer:
                assert (await answer.json())["method"] == method
        async with client.head(f"{pod_url(f'web:{port}')}/x") as answer:
            assert answer.status == 200
            assert int(answer.headers["Content-Length"]) > 0, "the length that a GET would have"
        async with client.get(f"{pod_url(f'web:{port}')}/nothing") as answer:
            assert answer.status == 204
        async with client.get(f"{pod_url(f'web:{port}')}/cookies") as answer:
            assert answer.headers.getall("Set-Cookie") == ["a=1; Path=/", "b=2; Path=/"]


async def test_links_of_a_page_stay_below_the_proxied_path(rig: Rig, server: LocalServer) -> None:
    async with serving() as port, session(server, server.as_tenant("acme")) as client:
        rig.place("acme", "web", [])
        url = pod_url(f"web:{port}")
        for path in ("page", "page?gzip"):
            async with client.get(f"{url}/{path}") as answer:
                assert await answer.text() == f'<a href="{url}/rewriteme">test</a>'
                assert answer.headers.get("Content-Encoding") == ("gzip" if "gzip" in path else None)
        async with client.get(f"{url}/long-page") as answer:
            assert await answer.text() == '<a href="/x">' * 100_000, "too long: passed on as it is"


async def test_which_port_is_meant(rig: Rig, server: LocalServer) -> None:
    acme = server.as_tenant("acme")
    async with serving() as port:
        declared = [{"containerPort": port, "name": "web"}, {"containerPort": 9, "name": "other"}]
        pod = rig.place("acme", "web", declared)
        for name in ("web", f"web:{port}", "web:web", f"http:web:{port}", "http:web:"):
            answer = await asyncio.to_thread(acme.get, f"{pod_url(name)}/x")
            assert answer.status == 200, (name, answer.body)
        assert set(pod.dialled) == {port}
    for name, code, message in (
        ("web:0", 503, "error trying to reach service: dial tcp: address 0: invalid port"),
        ("web:70000", 503, "error trying to reach service: dial tcp: address 70000: invalid port"),
        ("web:none", 503, "error trying to reach service: dial tcp: lookup tcp/none: unknown port"),
        ("ftp:web:80", 400, 'invalid pod request "ftp:web:80"'),
        ("a:b:c:d", 400, 'invalid pod request "a:b:c:d"'),
        (":80", 400, 'invalid pod request ":80"'),
        ("none:80", 404, 'pods "none" not found'),
        (f"web:{port}", 503, f"error trying to reach service: dial tcp :{port}: connect: connection refused"),
    ):
        answer = await asyncio.to_thread(acme.get, f"{pod_url(name)}/x")
        assert (answer.status, answer.json["message"]) == (code, message)


async def test_tls_into_the_pod(rig: Rig, server: LocalServer, tmp_path: Path) -> None:
    authority = CertificateAuthority.open(tmp_path / "pki", 1.8e9)
    issued = authority.client(Subject(SYSTEM, "self-made", ()), 1.8e9)
    pair = tmp_path / "pair.pem"
    pair.write_bytes(issued.certificate_pem + issued.key_pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair)
    acme = server.as_tenant("acme")
    async with serving(context) as secure, serving() as plain:
        rig.place("acme", "web", [])
        answer = await asyncio.to_thread(acme.get, f"{pod_url(f'https:web:{secure}')}/x")
        assert answer.status == 200, answer.body
        answer = await asyncio.to_thread(acme.get, f"{pod_url(f'https:web:{plain}')}/x")
        assert answer.status == 503
        assert "does not look like a TLS handshake" in answer.json["message"]


async def test_redirects_stay_below(rig: Rig, server: LocalServer) -> None:
    async with serving() as port, session(server, server.as_tenant("acme")) as client:
        rig.place("acme", "web", [])
        for url in (
            f"{pod_url(f'web:{port}')}/deep/elsewhere",
            f"/tenants/acme{pod_url(f'web:{port}')}/deep/elsewhere",
        ):
            async with client.get(url) as answer:
                assert (await answer.json())["path"] == "/echo?x=1"
        async with client.get(f"{pod_url(f'web:{port}')}?a=b", allow_redirects=False) as answer:
            assert (answer.status, answer.headers["Location"]) == (301, "proxy/?a=b")
        async with client.get(f"{pod_url(f'web:{port}')}?a=b") as answer:
            assert (await answer.json())["path"] == "/?a=b"


async def test_an_answer_comes_as_it_is_made(rig: Rig, server: LocalServer) -> None:
    go_on = asyncio.Event()

    async def slow(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n")
        await go_on.wait()
        writer.write(b"4\r\nlast\r\n0\r\n\r\n")

    async with answering(slow) as port, session(server, server.as_tenant("acme")) as client:
        rig.place("acme", "web", [])
        async with client.get(f"{pod_url(f'web:{port}')}/") as answer:
            assert "Link" not in answer.headers
            assert await answer.content.read(5) == b"first"
            go_on.set()
            assert await answer.content.read() == b"last"


async def test_an_answer_without_a_length_ends_with_its_connection(rig: Rig, server: LocalServer) -> None:
    async def old(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.0 200 OK\r\n\r\n" + b"x" * 100_000)

    async with answering(old) as port, session(server, server.as_tenant("acme")) as client:
        rig.place("acme", "web", [])
        async with client.get(f"{pod_url(f'web:{port}')}/") as answer:
            assert await answer.read() == b"x" * 100_000


async def test_an_answer_that_breaks_off_does_not_look_whole(rig: Rig, server: LocalServer) -> None:
    def reset(writer: asyncio.StreamWriter) -> None:
        found = writer.get_extra_info("socket")
        found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        writer.transport.abort()

    async def short(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort")

    async def cut(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.0 200 OK\r\n\r\nbegun")
        await writer.drain()
        await asyncio.sleep(0.2)
        reset(writer)

    async with session(server, server.as_tenant("acme")) as client:
        rig.place("acme", "web", [])
        for handler in (short, cut):
            async with answering(handler) as port:
                with pytest.raises(aiohttp.ClientError):
                    async with client.get(f"{pod_url(f'web:{port}')}/") as answer:
                        await answer.read()


async def test_a_backend_that_speaks_no_http(rig: Rig, server: LocalServer) -> None:
    async def rude(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 mail.example.com ESMTP\r\n")

    async def silent(_reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        pass

    async def pushy(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 101 Switching\r\nUpgrade: mine\r\nConnection: Upgrade\r\n\r\nbytes")

    acme = server.as_tenant("acme")
    rig.place("acme", "web", [])
    for handler in (rude, silent):
        async with answering(handler) as port:
            answer = await asyncio.to_thread(acme.get, f"{pod_url(f'web:{port}')}/")
            assert answer.status == 503
            assert answer.json["message"] == "error trying to reach service: EOF"
    async with answering(pushy) as port:
        answer = await asyncio.to_thread(acme.get, f"{pod_url(f'web:{port}')}/")
        assert (answer.status, "without an upgrade request" in answer.json["message"]) == (503, True)


async def test_websockets_pass(rig: Rig, server: LocalServer) -> None:
    async with serving() as port, session(server, server.as_tenant("acme")) as client:
        rig.place("acme", "web", [])
        async with client.ws_connect(f"{pod_url(f'web:{port}')}/talks", protocols=["talk"]) as talk:
            assert talk.protocol == "talk"
            for word in ("one", "two" * 50_000):
                await talk.send_str(word)
                assert await talk.receive_str() == f"you said {word}"


async def test_a_service_is_its_ready_pods(rig: Rig, server: LocalServer) -> None:
    acme = server.as_tenant("acme")
    async with serving() as port:
        pods = [rig.place("acme", f"web{each}", []) for each in range(3)]
        rig.serve("acme", "web", pods, port)
        for name in ("web:80", "web:web", "http:web:80") * 10:
            answer = await asyncio.to_thread(acme.get, f"{service_url(name)}/x")
            assert answer.status == 200, (name, answer.body)
        assert all(each.dialled for each in pods), "each has its turn"
        for name, code, message in (
            ("web:81", 503, 'no service port 81 found for service "web"'),
            ("web:other", 503, 'no endpoints available for service "web"'),
            ("web", 503, 'no endpoints available for service "web"'),
            ("ftp:web:80", 400, 'invalid service request "ftp:web:80"'),
            ("none:80", 404, 'services "none" not found'),
            ("none", 404, 'services "none" not found'),
        ):
            answer = await asyncio.to_thread(acme.get, f"{service_url(name)}/x")
            assert (answer.status, answer.json["message"]) == (code, message)


@pytest.mark.parametrize("ready", [True, False])
async def test_a_service_without_ready_pods(rig: Rig, server: LocalServer, ready: bool) -> None:
    acme = server.as_tenant("acme")
    pods = [] if ready else [rig.place("acme", "web0", [])]
    rig.serve("acme", "web", pods, 80, ready)
    answer = await asyncio.to_thread(acme.get, f"{service_url('web:80')}/x")
    assert (answer.status, answer.json["message"]) == (503, 'no endpoints available for service "web"')
    assert answer.json["reason"] == "ServiceUnavailable"


async def test_endpoints_lead_to_pods_of_their_namespace_only(rig: Rig, server: LocalServer) -> None:
    """Whoever writes Endpoints writes any address: none of them is dialled."""
    acme = server.as_tenant("acme")
    async with serving() as port:
        pod = rig.place("acme", "web0", [])
        rig.serve("acme", "web", [pod], port)
        path = "/api/v1/namespaces/default/endpoints/web"
        for address in (
            {"ip": "192.0.2.1"},
            {"ip": "10.0.0.6", "targetRef": {"kind": "Pod", "name": "web0", "namespace": "default"}},
            {"ip": "10.0.0.5", "targetRef": {"kind": "Pod", "name": "web0", "namespace": "kube-system"}},
            {"ip": "10.0.0.5", "targetRef": {"kind": "Node", "name": rig.name}},
        ):
            subset = {"addresses": [address], "ports": [{"name": "web", "port": port}]}
            assert acme.patch(path, {"subsets": [subset]}).status == 200
            answer = await asyncio.to_thread(acme.get, f"{service_url('web:80')}/x")
            assert answer.status == 503, address
        assert not pod.dialled


async def test_a_tenant_reaches_only_its_own(rig: Rig, server: LocalServer) -> None:
    async with serving() as port:
        pod = rig.place("acme", "web", [])
        rig.serve("acme", "web", [pod], port)
        beta = server.as_tenant("beta")
        for path, code in (
            (f"/api/v1/namespaces/default/pods/web:{port}/proxy/", 404),
            (f"/api/v1/tenants/acme/namespaces/default/pods/web:{port}/proxy/", 403),
            (f"/tenants/acme/api/v1/namespaces/default/services/web:{port}/proxy/", 403),
            (f"/api/v1/nodes/{rig.name}/proxy/healthz", 404),
            (f"/api/v1/nodes/{rig.name}:{port}/proxy/", 404),
            (f"/api/v1/tenants/system/nodes/{rig.name}/proxy/healthz", 403),
        ):
            assert (await asyncio.to_thread(beta.get, path)).status == code, path
        assert not pod.dialled


async def test_it_takes_the_right_to_proxy(rig: Rig, server: LocalServer) -> None:
    rbac = "/apis/rbac.authorization.k8s.io/v1/tenants/acme"
    rules = [{"apiGroups": [""], "resources": ["pods", "pods/proxy"], "verbs": ["get"]}]
    server.system.post(f"{rbac}/clusterroles", {"metadata": {"name": "looks"}, "rules": rules})
    binding = {
        "metadata": {"name": "looks"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "looks"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "ann"}],
    }
    server.system.post(f"{rbac}/clusterrolebindings", binding)
    async with serving() as port:
        pod = rig.place("acme", "web", [])
        ann, url = server.as_tenant("acme", "ann"), f"{pod_url(f'web:{port}')}/x"
        assert (await asyncio.to_thread(ann.get, url)).status == 200
        assert (await asyncio.to_thread(ann.post, url, {})).status == 403
        other = await asyncio.to_thread(ann.get, f"{service_url('web:80')}/x")
        assert other.status == 403
        assert 'resource "services/proxy"' in other.json["message"]
        assert len(pod.dialled) == 1


async def test_nodes_are_ring0s_to_ask(rig: Rig, server: LocalServer) -> None:
    async with serving() as port:
        rig.place("acme", "web", [])

        def get(name: str, path: str) -> Object | bytes:
            answer = server.system.get(f"/api/v1/nodes/{name}/proxy/{path}")
            assert answer.status == 200, answer.body
            return (
                answer.json if answer.headers["content-type"].startswith("application/json") else answer.body
            )

        assert await asyncio.to_thread(get, rig.name, "healthz") == b"ok"
        listed = await asyncio.to_thread(get, rig.name, "pods")
        assert isinstance(listed, dict)
        assert listed["kind"] == "PodList"
        assert [each["metadata"]["name"] for each in listed["items"]] == ["web"]
        summary = await asyncio.to_thread(get, rig.name, "stats/summary")
        assert isinstance(summary, dict)
        assert summary["node"]["memory"]["workingSetBytes"] > 0
        assert rig.agent is not None
        assert await asyncio.to_thread(get, f"{rig.name}:{rig.agent.port}", "healthz") == b"ok"
        echoed = await asyncio.to_thread(get, f"{rig.name}:{port}", "x")
        assert isinstance(echoed, dict)
        assert echoed["path"] == "/x"
        for name, path, code in (
            (rig.name, "none", 404),
            ("none", "healthz", 404),
            ("a:b:c:d", "healthz", 400),
            (f"{rig.name}:x", "healthz", 503),
        ):
            url = f"/api/v1/nodes/{name}/proxy/{path}"
            assert (await asyncio.to_thread(server.system.get, url)).status == code, url
        answer = await asyncio.to_thread(server.system.post, f"/api/v1/nodes/{rig.name}/proxy/healthz", {})
        assert answer.status == 405


async def test_discovery_and_kubectl_know_it(rig: Rig, server: LocalServer) -> None:
    acme = server.as_tenant("acme")
    found = {each["name"]: each for each in acme.get("/api/v1").json["resources"]}
    for name, kind in (("pods", "PodProxyOptions"), ("services", "ServiceProxyOptions")):
        entry = found[f"{name}/proxy"]
        assert (entry["kind"], entry["namespaced"]) == (kind, True)
        assert set(entry["verbs"]) == {"create", "delete", "get", "patch", "update"}
    assert "nodes/proxy" not in found
    of_ring0 = {each["name"]: each for each in server.system.get("/api/v1").json["resources"]}
    assert of_ring0["nodes/proxy"]["kind"] == "NodeProxyOptions"
    async with serving() as port:
        rig.place("acme", "web", [])
        done = await rig.kubectl(acme, "get", "--raw", f"{pod_url(f'web:{port}')}/x?y=z")
        assert done.code == 0, done.errors
        assert '"path": "/x?y=z"' in done.out
        done = await rig.kubectl(acme, "get", "--raw", f"{service_url('none:80')}/")
        assert 'services "none" not found' in done.errors


async def test_a_body_of_any_size_goes_up(rig: Rig, server: LocalServer) -> None:
    async with serving() as port, session(server, server.as_tenant("acme")) as client:
        rig.place("acme", "web", [])
        body = b"0123456789abcdef" * (3 << 20)
        for url in (f"{pod_url(f'web:{port}')}/x", f"{pod_url(f'web:{port}')}/y"):
            async with client.put(url, data=body) as answer:
                echo = await answer.json()
            assert (echo["length"], echo["body"]) == (len(body), hashlib.md5(body).hexdigest())
            assert echo["headers"]["content-length"] == str(len(body))


async def test_a_body_goes_up_as_it_comes(rig: Rig, server: LocalServer) -> None:
    begun = asyncio.Event()

    async def takes(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert await reader.readexactly(10) == b"5\r\nfirst\r\n"
        begun.set()
        assert await reader.readuntil(b"0\r\n\r\n") == b"4\r\nlast\r\n0\r\n\r\n"
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nboth")

    async def parts() -> AsyncIterator[bytes]:
        yield b"first"
        await begun.wait()
        yield b"last"

    async with answering(takes) as port, session(server, server.as_tenant("acme")) as client:
        rig.place("acme", "web", [])
        async with client.post(f"{pod_url(f'web:{port}')}/x", data=parts()) as answer:
            assert await answer.read() == b"both"


async def test_who_is_refused_hears_it_though_it_still_sends(rig: Rig, server: LocalServer) -> None:
    over = asyncio.Event()

    async def busy(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nno!")
        await over.wait()

    async with answering(busy) as port, session(server, server.as_tenant("acme")) as client:
        rig.place("acme", "web", [])
        body = b"x" * (8 << 20)
        for url, code in (
            (f"{pod_url('none:80')}/x", 404),
            (f"/api/v1/tenants/beta/namespaces/default/pods/web:{port}/proxy/x", 403),
            (f"{pod_url(f'web:{port}')}/x", 413),
            (f"{pod_url('web:9')}/x", 503),
        ):
            async with client.put(url, data=body) as answer:
                await answer.read()
                assert answer.status == code, url
        over.set()
        async with client.put("/api/v1/namespaces/default/configmaps/proxy", data=body) as answer:
            assert answer.status == 413, "what is only called proxy is read as ever"


async def test_a_backend_that_takes_nothing_does_not_fill_the_server(rig: Rig, server: LocalServer) -> None:
    go_on = asyncio.Event()

    async def stuck(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        await go_on.wait()
        writer.transport.resume_reading()  # type: ignore[attr-defined]
        end = b""
        while not end.endswith(b"\r\n0\r\n\r\n"):
            end = (end + await reader.read(1 << 20))[-16:]
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ndone")

    sent = 0

    async def parts() -> AsyncIterator[bytes]:
        nonlocal sent
        for _ in range(1024):
            yield b"x" * (64 << 10)
            sent += 64 << 10

    async with answering(stuck) as port, session(server, server.as_tenant("acme")) as client:
        rig.place("acme", "web", [])
        asking = asyncio.create_task(client.post(f"{pod_url(f'web:{port}')}/x", data=parts()).__aenter__())
        before = -1
        while before != sent:
            before = sent
            await asyncio.sleep(0.5)
        assert sent < 32 << 20, "half of it is not in sockets and buffers"
        go_on.set()
        async with asyncio.timeout(60):
            assert await (await asking).read() == b"done"


async def test_from_a_browser_by_kubectl_proxy(rig: Rig, server: LocalServer) -> None:
    """Which puts the tenant's prefix before every path: redirects hold below it too."""
    async with serving() as port:
        rig.place("acme", "web", [])
        process = await rig.begin(server.as_tenant("acme"), "proxy", "--port=0")
        assert process.stdout is not None
        try:
            async with asyncio.timeout(60):
                line = (await process.stdout.readline()).decode()
            base = f"http://{line.split()[-1]}"
            async with aiohttp.ClientSession(base) as browser:
                for path, message in (
                    ("/x?y=z", "/x?y=z"),
                    ("?a=b", "/?a=b"),
                    ("/deep/elsewhere", "/echo?x=1"),
                ):
                    async with browser.get(f"{pod_url(f'web:{port}')}{path}") as answer:
                        assert (await answer.json())["path"] == message
                async with browser.ws_connect(f"{pod_url(f'web:{port}')}/talks") as talk:
                    await talk.send_str("hello")
                    assert await talk.receive_str() == "you said hello"
        finally:
            process.terminate()
            await process.communicate()


async def test_a_client_that_leaves_is_noticed(rig: Rig, server: LocalServer) -> None:
    begun, gone = asyncio.Event(), asyncio.Event()

    async def waits(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        begun.set()
        await reader.read()
        gone.set()

    async with answering(waits) as port, session(server, server.as_tenant("acme")) as client:
        rig.place("acme", "web", [])
        asking = asyncio.create_task(client.get(f"{pod_url(f'web:{port}')}/").__aenter__())
        async with asyncio.timeout(60):
            await begun.wait()
            asking.cancel()
            await gone.wait()

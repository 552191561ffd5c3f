"""An extension server: an aggregated API with objects in memory, which believes its front proxy.

It uses the standard library only, so that its text runs in a pod as well as in a test's thread:

    with ExtensionServer("things.example.com", certificate, key, authority) as server:
        server.port, server.seen

Things can be created, read, listed, watched, deleted; `…/things/NAME/echo` answers with the request itself, and
`…/things/NAME/shell` takes an upgrade and sends every byte back; in a pod, `…/things/NAME/review` asks the API server
who the server itself is, and whether the caller may get the thing. Metrics are served for `custom.metrics.k8s.io` and
`external.metrics.k8s.io`.
"""

from __future__ import annotations

import json
import os
import ssl
import threading
import urllib.request
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

VERSION = "v1"
VERBS = ["create", "delete", "deletecollection", "get", "list", "watch"]
FRONT_PROXY = "front-proxy-client"


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignores errors: some tests disconnect in the middle of a request."""


class ExtensionServer:
    def __init__(
        self,
        group: str,
        certificate: bytes,
        key: bytes,
        authority: bytes,
        host: str = "127.0.0.1",
        port: int = 0,
    ) -> None:
        """`authority`: the front proxy's, in PEM."""
        self.group = group
        self.things: dict[str, Any] = {}
        self.changed = threading.Condition()
        self.events: list[Any] = []
        self.seen: list[tuple[str, str, dict[str, list[str]]]] = []
        """Method, path and headers of requests."""
        self.connections = 0
        self.metric = 0
        self.review: Callable[[str, list[str]], Any] = lambda _user, _groups: None
        self.respond: Callable[[Any], bool] = lambda _handler: False
        """Answers a request in another way; returns whether it did."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.verify_mode = ssl.CERT_OPTIONAL
        context.load_verify_locations(cadata=authority.decode())
        pair = os.memfd_create("pair")
        os.write(pair, certificate + key)
        context.load_cert_chain(f"/proc/self/fd/{pair}")
        os.close(pair)
        self._server = _Server((host, port), _handler(self))
        # The handshake runs in the connection's thread: a client that never completes it blocks only itself.
        self._server.socket = context.wrap_socket(
            self._server.socket, server_side=True, do_handshake_on_connect=False
        )

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    def __enter__(self) -> ExtensionServer:
        threading.Thread(target=self.serve, daemon=True).start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def serve(self) -> None:
        self._server.serve_forever(poll_interval=0.02)

    def documents(self) -> dict[str, Any]:
        """Discovery and OpenAPI."""
        root = f"apis/{self.group}/{VERSION}"
        names = [("things", "Thing", VERBS), ("things/echo", "Echo", ["get", "create", "update", "patch"])]
        resources = [
            {"name": name, "singularName": "", "namespaced": True, "kind": kind, "verbs": verbs}
            for name, kind, verbs in names
        ]
        resources[0] |= {"singularName": "thing", "shortNames": ["tg"]}
        kind = {"group": self.group, "version": VERSION, "kind": "Thing"}
        definition = {
            "type": "object",
            "description": "A thing of an aggregated API.",
            "properties": {"size": {"type": "integer", "description": "How large it is."}},
            "x-kubernetes-group-version-kind": [kind],
        }
        operation = {
            "description": "list things",
            "operationId": "listThings",
            "parameters": [],
            "responses": {"200": {"description": "OK"}},
            "x-kubernetes-action": "list",
            "x-kubernetes-group-version-kind": kind,
        }
        path = {f"/{root}/namespaces/{{namespace}}/things": {"get": operation}}
        info = {"title": "things", "version": "v1"}
        return {
            f"/{root}": {
                "kind": "APIResourceList",
                "apiVersion": "v1",
                "groupVersion": f"{self.group}/{VERSION}",
                "resources": resources,
            },
            "/openapi/v3": {"paths": {root: {"serverRelativeURL": f"/openapi/v3/{root}?hash=1234"}}},
            f"/openapi/v3/{root}": {
                "openapi": "3.0.0",
                "info": info,
                "paths": path,
                "components": {"schemas": {"com.example.things.v1.Thing": definition}},
            },
            "/openapi/v2": {
                "swagger": "2.0",
                "info": info,
                "paths": {**path, "/apis/apps/v1/lies": {"get": operation}},
                "definitions": {"com.example.things.v1.Thing": definition},
            },
        }

    def change(self, kind: str, thing: Any) -> None:
        with self.changed:
            self.events.append({"type": kind, "object": thing})
            self.changed.notify_all()


def _handler(server: ExtensionServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 60
        body = b""

        def setup(self) -> None:
            super().setup()
            server.connections += 1

        def do_GET(self) -> None:
            self.handle_any()

        do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = do_GET

        def handle_any(self) -> None:
            self.body = self.read_body()
            headers: dict[str, list[str]] = {}
            for name, value in self.headers.items():
                headers.setdefault(name.lower(), []).append(value)
            server.seen.append((self.command, self.path, headers))
            if server.respond(self):
                return
            user = self.user()
            path = self.path.partition("?")[0]
            if user is None:
                self.answer(
                    401, {"kind": "Status", "status": "Failure", "code": 401, "message": "not a front proxy"}
                )
            elif path in (documents := server.documents()):
                self.answer(200, documents[path])
            elif ".metrics.k8s.io/" in path:
                self.metrics(path)
            elif path == f"/apis/{server.group}/{VERSION}/things":
                self.things(["things"], user)
            elif f"/apis/{server.group}/{VERSION}/namespaces/" in path:
                self.things(path.split("/")[6:], user)
            else:
                self.missing()

        def read_body(self) -> bytes:
            if self.headers.get("Transfer-Encoding") == "chunked":
                parts = []
                while size := int(self.rfile.readline(), 16):
                    parts.append(self.rfile.read(size))
                    self.rfile.readline()
                self.rfile.readline()
                return b"".join(parts)
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))

        def user(self) -> str | None:
            """The user that the front proxy names; None if the client is no front proxy."""
            certificate = self.connection.getpeercert() or {}
            names = [
                value for part in certificate.get("subject", ()) for key, value in part if key == "commonName"
            ]
            return self.headers.get("X-Remote-User") if names == [FRONT_PROXY] else None

        def answer(self, status: int, value: Any) -> None:
            body = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def missing(self) -> None:
            status = {
                "kind": "Status",
                "apiVersion": "v1",
                "status": "Failure",
                "code": 404,
                "reason": "NotFound",
            }
            self.answer(404, {**status, "message": "there is no such thing"})

        def things(self, rest: list[str], user: str) -> None:
            """`rest` is `things[/NAME[/SUBRESOURCE]]`."""
            _, name, subresource = (*rest, "", "")[:3]
            if subresource == "echo":
                certificate = self.connection.getpeercert()
                echo = {"method": self.command, "path": self.path, "length": len(self.body), "user": user}
                self.answer(
                    200, {**echo, "headers": server.seen[-1][2], "issuer": str(certificate["issuer"])}
                )
            elif subresource == "shell":
                self.shell()
            elif subresource == "review":
                self.answer(200, server.review(user, self.headers.get_all("X-Remote-Group") or []))
            elif "watch=" in self.path:
                self.watch()
            elif self.command == "POST":
                thing = {**json.loads(self.body), "apiVersion": f"{server.group}/{VERSION}", "kind": "Thing"}
                thing["metadata"]["namespace"] = self.path.split("/")[5]
                server.things[thing["metadata"]["name"]] = thing
                server.change("ADDED", thing)
                self.answer(201, thing)
            elif self.command == "DELETE":
                gone = [server.things.pop(each, None) for each in ([name] if name else list(server.things))]
                for thing in filter(None, gone):
                    server.change("DELETED", thing)
                self.answer(200, {"kind": "Status", "status": "Success"})
            elif not name:
                items = list(server.things.values())
                listed = {"kind": "ThingList", "apiVersion": f"{server.group}/{VERSION}", "metadata": {}}
                self.answer(200, {**listed, "items": items})
            elif name in server.things:
                self.answer(200, server.things[name])
            else:
                self.missing()

        def watch(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            sent = 0
            while True:
                with server.changed:
                    while len(server.events) == sent:
                        server.changed.wait(30)
                    events, sent = server.events[sent:], len(server.events)
                for event in events:
                    line = json.dumps(event).encode() + b"\n"
                    self.wfile.write(b"%x\r\n%b\r\n" % (len(line), line))
                self.wfile.flush()

        def shell(self) -> None:
            self.send_response(101)
            self.send_header("Connection", "Upgrade")
            self.send_header("Upgrade", self.headers.get("Upgrade", ""))
            self.end_headers()
            self.wfile.flush()
            while data := self.connection.recv(1 << 16):
                self.connection.sendall(data)
            self.close_connection = True

        def metrics(self, path: str) -> None:
            parts = path.split("/")
            if len(parts) == 4:
                self.answer(
                    200, {"kind": "APIResourceList", "groupVersion": "/".join(parts[2:]), "resources": []}
                )
                return
            value = {"timestamp": "2026-01-01T00:00:00Z", "value": str(server.metric)}
            if parts[2].startswith("external"):
                self.answer(200, {"items": [{"metricName": parts[-1], "metricLabels": {}, **value}]})
                return
            metric = {"name": parts[-1]}
            names = server.things if parts[-2] == "*" else [parts[-2]]
            items = [
                {"describedObject": {"kind": "X", "name": name}, "metric": metric, **value} for name in names
            ]
            self.answer(200, {"kind": "MetricValueList", "items": items})

        def log_message(self, format: str, *args: Any) -> None:
            """Logs nothing: tests read `seen`."""

    return Handler


class _ApiServer:
    """The API server, asked with the pod's service account."""

    def __init__(self) -> None:
        account = Path("/var/run/secrets/kubernetes.io/serviceaccount")
        self.token = (account / "token").read_text()
        self._context = ssl.create_default_context(cafile=account / "ca.crt")

    def ask(self, path: str, body: Any = None) -> Any:
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"https://kubernetes.default.svc{path}", data, headers)
        with urllib.request.urlopen(request, context=self._context, timeout=60) as answer:
            return json.load(answer)

    def review(self, group: str, user: str, groups: list[str]) -> Any:
        attributes = {"group": group, "resource": "things", "verb": "get", "namespace": "default"}
        spec = {"user": user, "groups": groups, "resourceAttributes": attributes}
        access = self.ask("/apis/authorization.k8s.io/v1/subjectaccessreviews", {"spec": spec})
        token = self.ask("/apis/authentication.k8s.io/v1/tokenreviews", {"spec": {"token": self.token}})
        return {
            "user": user,
            "allowed": access["status"]["allowed"],
            "own": token["status"]["user"]["username"],
        }


def main() -> None:
    """In a pod: the group in GROUP, the metrics' value in METRIC, the certificate in /tls, the front proxy's authority
    from the API server."""
    api_server, group, tls = _ApiServer(), os.environ["GROUP"], Path("/tls")
    data = api_server.ask("/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication")[
        "data"
    ]
    authority = data["requestheader-client-ca-file"].encode()
    certificate, key = (tls / "tls.crt").read_bytes(), (tls / "tls.key").read_bytes()
    server = ExtensionServer(group, certificate, key, authority, "0.0.0.0", 8443)
    server.metric = int(os.environ["METRIC"])
    server.review = lambda user, groups: api_server.review(group, user, groups)
    server.serve()


if __name__ == "__main__":
    main()

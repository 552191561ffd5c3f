"""A real API server as a process, for tests: started on a free port, stopped at the end of the block.

with LocalServer(directory) as server:
    server.kubectl("get", "namespaces")
    server.as_tenant("acme").get("/api/v1/namespaces")
"""

from __future__ import annotations

import http.client
import os
import signal
import ssl
import subprocess
import time
from pathlib import Path
from typing import Any, Self

import orjson
from msgspec import Struct

from alcove.api.ids import SYSTEM
from alcove.api.objects import Object
from alcove.apiserver.auth.certificates import CertificateAuthority
from alcove.apiserver.auth.subjects import Subject
from alcove.apiserver.rbac.nodes import NODE_USER_PREFIX, NODES_GROUP
from alcove.cli import credentials
from alcove.cli.connection import CliConnection, load
from alcove.cli.kubeconfig import KubeconfigCertificate, render
from alcove.testing.claims import free_port
from alcove.testing.local import LocalProcess

WAIT_SECONDS_MAX = 90.0
"""For what should happen in a moment, on a machine that does ten other things."""


class ServerResponse(Struct, frozen=True):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return orjson.loads(self.body)


class Caller:
    """A user's connection to the server: plain HTTP requests and raw responses."""

    def __init__(self, kubeconfig: Path, *, anonymous: bool = False, token: str = "") -> None:
        self.kubeconfig = kubeconfig
        user = load(kubeconfig)
        host, _, port = user.server.removeprefix("https://").partition("/")[0].partition(":")
        self._where = (host, int(port))
        self._token = token
        self._tls = ssl.create_default_context(cadata=user.ca_pem.decode())
        if not anonymous and not token:
            pair = kubeconfig.with_suffix(".pem")
            if not pair.exists():
                pair.touch(mode=0o600)
                pair.write_bytes(user.certificate_pem + user.key_pem)
            self._tls.load_cert_chain(pair)
        self._connection: http.client.HTTPSConnection | None = None

    def request(
        self, method: str, path: str, body: Object | list[Any] | bytes | None = None, **headers: str
    ) -> ServerResponse:
        """Keywords are headers: `content_type="application/json"`."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        data = body if isinstance(body, bytes) or body is None else orjson.dumps(body)
        if data is not None:
            sent.setdefault("content-type", "application/json")
        if self._token:
            sent["authorization"] = f"Bearer {self._token}"
        response, answer = self._exchange(method, path, data, sent)
        response_headers: dict[str, str] = {}
        for name, value in response.getheaders():
            # Headers of the same name are joined, as HTTP allows.
            key = name.lower()
            response_headers[key] = f"{response_headers[key]}, {value}" if key in response_headers else value
        return ServerResponse(response.status, response_headers, answer)

    def _exchange(
        self, method: str, path: str, data: bytes | None, headers: dict[str, str]
    ) -> tuple[http.client.HTTPResponse, bytes]:
        for attempt in (1, 2):
            if self._connection is None:
                self._connection = http.client.HTTPSConnection(
                    *self._where, context=self._tls, timeout=WAIT_SECONDS_MAX
                )
            try:
                self._connection.request(method, path, data, headers)
                response = self._connection.getresponse()
                return response, response.read()
            except (http.client.RemoteDisconnected, ConnectionError, ssl.SSLEOFError):
                # The server closes idle connections after some minutes.
                self._connection.close()
                self._connection = None
                if attempt == 2:
                    raise
        raise AssertionError

    def get(self, path: str, **headers: str) -> ServerResponse:
        return self.request("GET", path, None, **headers)

    def post(self, path: str, body: Object, **headers: str) -> ServerResponse:
        return self.request("POST", path, body, **headers)

    def put(self, path: str, body: Object, **headers: str) -> ServerResponse:
        return self.request("PUT", path, body, **headers)

    def patch(self, path: str, body: Any, kind: str = "merge-patch+json", **headers: str) -> ServerResponse:
        return self.request("PATCH", path, body, **{"content_type": f"application/{kind}", **headers})

    def delete(self, path: str, body: Object | None = None, **headers: str) -> ServerResponse:
        return self.request("DELETE", path, body, **headers)

    def begin(self, path: str) -> int:
        """Begins a GET whose response does not end before the connection is closed; returns its status."""
        assert self._connection is not None
        self._connection.request("GET", path)
        return self._connection.getresponse().status

    @property
    def local_port(self) -> int:
        """The port of the connection that the last request used."""
        assert self._connection is not None
        return int(self._connection.sock.getsockname()[1])

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def kubectl(
        self, *arguments: str, stdin: str | None = None, check: bool = True, env: dict[str, str] | None = None
    ) -> str:
        """Standard output of the installed kubectl as this caller. With `check` a failure raises; without it,
        standard error is included."""
        return _kubectl(self.kubeconfig, arguments, stdin, check, env or {})


def _kubectl(
    kubeconfig: Path, arguments: tuple[str, ...], stdin: str | None, check: bool, env: dict[str, str]
) -> str:
    done = subprocess.run(
        [
            "kubectl",
            "--kubeconfig",
            str(kubeconfig),
            "--cache-dir",
            str(kubeconfig.with_suffix(".cache")),
            *arguments,
        ],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=2 * WAIT_SECONDS_MAX,
        env={**os.environ, **env},
    )
    if check and done.returncode != 0:
        raise AssertionError(f"kubectl {' '.join(arguments)}: {done.stderr}{done.stdout}")
    return done.stdout if check else done.stdout + done.stderr


class LocalServer(LocalProcess):
    """`with LocalServer(directory): …`; after a restart it uses the same port."""

    ready = "serving "

    def __init__(self, directory: Path, *options: str, port: int = 0) -> None:
        """`port`: by default one that nobody else gets while the server is stopped."""
        super().__init__("apiserver", directory / "log")
        self.directory = directory
        self._options = options
        self._port = port or free_port()
        self._callers: dict[tuple[str, str], Caller] = {}

    @property
    def admin_kubeconfig(self) -> Path:
        return self.directory / "admin.kubeconfig"

    @property
    def address(self) -> tuple[str, int]:
        return "127.0.0.1", self._port

    def start(self) -> None:
        """Starts the server, and waits until it serves."""
        self.admin_kubeconfig.unlink(missing_ok=True)
        # One process, however many cores the machine has: tests look at it.
        workers = () if "--workers" in self._options else ("--workers", "1")
        self._arguments = ("--data", str(self.directory), "--port", str(self._port), *workers, *self._options)
        super().start()
        self._port = int(self.wait().split()[1].rpartition(":")[2])

    def stop(self, sent: signal.Signals = signal.SIGTERM) -> None:
        for caller in self._callers.values():
            caller.close()
        super().stop(sent)

    def __enter__(self) -> Self:
        self.start()
        return self

    @property
    def system(self) -> Caller:
        """The caller of ring0's administrator."""
        return self._caller(("system", "admin"), self.admin_kubeconfig)

    def as_tenant(self, tenant: str, user: str = "admin", groups: tuple[str, ...] = ()) -> Caller:
        """A caller for a user of a tenant, which must exist with its administrator's role (`make_tenant`)."""
        path = self.directory / f"{tenant}-{user}.kubeconfig"
        if not path.exists():
            connection = CliConnection(load(self.admin_kubeconfig))
            issued = credentials.issue(connection, tenant, user, groups)
            path.write_text(render(connection.server, connection.ca_pem, tenant, user, issued))
        return self._caller((tenant, user), path)

    def as_node(self, name: str) -> Caller:
        """A caller for a node's agent, with a certificate of the server's own authority."""
        user = f"{NODE_USER_PREFIX}{name}"
        path = self.directory / f"node-{name}.kubeconfig"
        if not path.exists():
            authority = CertificateAuthority.open(self.directory / "pki", time.time())
            issued = authority.client(Subject(SYSTEM, user, (NODES_GROUP,)), time.time())
            admin = load(self.admin_kubeconfig)
            credential = KubeconfigCertificate(issued.certificate_pem, issued.key_pem)
            path.write_text(render(admin.server, admin.ca_pem, SYSTEM, user, credential))
        return self._caller((SYSTEM, user), path)

    def anonymous(self, token: str = "") -> Caller:
        return Caller(self.admin_kubeconfig, anonymous=True, token=token)

    def _caller(self, key: tuple[str, str], path: Path) -> Caller:
        if key not in self._callers:
            self._callers[key] = Caller(path)
        return self._callers[key]

    def make_tenant(self, name: str) -> Caller:
        """Creates a tenant with the tenant controller's objects; returns its administrator."""
        self._must("/api/v1/tenants", {"metadata": {"name": name}, "spec": {}})
        for namespace in ("default", "kube-system", "kube-public"):
            self.make_namespace(name, namespace)
        rbac = f"/apis/rbac.authorization.k8s.io/v1/tenants/{name}"
        everything = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}
        paths = {"nonResourceURLs": ["*"], "verbs": ["*"]}
        role = {"metadata": {"name": "admin-role"}, "rules": [everything, paths]}
        self._must(f"{rbac}/clusterroles", role)
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "admin-role"}
        subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "admin"}
        binding = {"metadata": {"name": "admin-role-binding"}, "roleRef": reference, "subjects": [subject]}
        self._must(f"{rbac}/clusterrolebindings", binding)
        return self.as_tenant(name)

    def make_namespace(self, tenant: str, name: str) -> None:
        """Creates a namespace with its service account."""
        path = f"/api/v1/tenants/{tenant}/namespaces"
        answer = self.system.post(path, {"metadata": {"name": name}})
        assert answer.status in (201, 409), answer.body
        answer = self.system.post(f"{path}/{name}/serviceaccounts", {"metadata": {"name": "default"}})
        assert answer.status in (201, 409), answer.body  # Controllers may be quicker.

    def _must(self, path: str, body: Object) -> None:
        answer = self.system.post(path, body)
        assert answer.status == 201, answer.body


def changes_since(caller: Caller, path: str, revision: str) -> list[Object]:
    """All events of a list's path from that revision until now. A watch that ends before it has sent everything,
    which it says by having no bookmark at its end, is resumed."""
    events: list[Object] = []
    while True:
        query = f"watch=true&allowWatchBookmarks=true&timeoutSeconds=1&resourceVersion={revision}"
        new = [orjson.loads(line) for line in caller.get(f"{path}?{query}").body.splitlines()]
        assert all(each["type"] != "ERROR" for each in new), new
        events += [each for each in new if each["type"] != "BOOKMARK"]
        if new and new[-1]["type"] == "BOOKMARK":
            return events
        revision = new[-1]["object"]["metadata"]["resourceVersion"] if new else revision


def wait_until(check: Any, seconds_max: float = WAIT_SECONDS_MAX) -> Any:
    """Polls until `check` returns a truthy result, and returns it. Raises AssertionError on timeout.

    A field or item that is not there yet is "not yet": objects get their status after they are made.
    """
    deadline = time.monotonic() + seconds_max
    while True:
        missing: LookupError | None = None
        try:
            if answer := check():
                return answer
        except LookupError as error:
            missing = error
        if time.monotonic() > deadline:
            raise AssertionError(f"not so within {seconds_max} s: {check}") from missing
        time.sleep(0.02)

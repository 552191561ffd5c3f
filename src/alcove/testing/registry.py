"""An image registry for tests: serves OCI layouts over HTTP on loopback, optionally with a password.

with Registry({"shop/web": layout}, password="secret") as registry:
    f"{registry.host}/shop/web:v1"
"""

from __future__ import annotations

import base64
import threading
from collections import Counter
from collections.abc import Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import orjson

_MANIFEST = "application/vnd.oci.image.manifest.v1+json"


class LocalImageRegistry:
    """Serves all tags of a layout under the repository's name. The user is `me`; an empty password allows
    anonymous access."""

    def __init__(
        self, repositories: Mapping[str, Path], password: str = "", address: str = "127.0.0.1"
    ) -> None:
        """`address`: local address to listen on."""
        self.repositories = dict(repositories)
        self.password = password
        self.given: Counter[str] = Counter()
        """Number of requests for each blob."""
        self.asked_as: set[str] = set()
        """Credentials of the requests: `user:password`."""
        handler = type("_Bound", (_Handler,), {"registry": self})
        self._address = address
        self._server = ThreadingHTTPServer(("127.0.0.1" if address == "127.0.0.1" else "0.0.0.0", 0), handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def host(self) -> str:
        return f"{self._address}:{self._server.server_port}"

    def __enter__(self) -> LocalImageRegistry:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def manifest(self, repository: str, reference: str) -> tuple[bytes | None, str]:
        """The content with its media type."""
        layout = self.repositories.get(repository)
        if layout is None:
            return None, ""
        for entry in orjson.loads((layout / "index.json").read_bytes())["manifests"]:
            tag = (entry.get("annotations") or {}).get("org.opencontainers.image.ref.name")
            if reference in (tag, entry["digest"]):
                return self.blob(repository, entry["digest"]), entry["mediaType"]
        return self.blob(repository, reference), _MANIFEST

    def blob(self, repository: str, digest: str) -> bytes | None:
        layout = self.repositories.get(repository)
        path = layout / "blobs" / digest.replace(":", "/", 1) if layout is not None else None
        return path.read_bytes() if path is not None and path.is_file() else None


class _Handler(BaseHTTPRequestHandler):
    registry: ClassVar[LocalImageRegistry]
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if not self._is_allowed():
            self._answer(HTTPStatus.UNAUTHORIZED, b"", "text/plain")
            return
        repository, kind, reference = (*self.path.removeprefix("/v2/").rsplit("/", 2), "", "")[:3]
        if kind == "manifests":
            self._give(*self.registry.manifest(repository, reference))
        elif kind == "blobs":
            self.registry.given[reference] += 1
            self._give(self.registry.blob(repository, reference), "application/octet-stream")
        else:
            self._answer(HTTPStatus.OK if self.path == "/v2/" else HTTPStatus.NOT_FOUND, b"{}", "text/plain")

    do_HEAD = do_GET

    def _is_allowed(self) -> bool:
        message = self.headers.get("Authorization", "").removeprefix("Basic ")
        who = base64.b64decode(message).decode()
        if who:
            self.registry.asked_as.add(who)
        return not self.registry.password or who == f"me:{self.registry.password}"

    def _give(self, content: bytes | None, kind: str) -> None:
        if content is None:
            self._answer(
                HTTPStatus.NOT_FOUND, b'{"errors":[{"code":"MANIFEST_UNKNOWN"}]}', "application/json"
            )
        else:
            self._answer(HTTPStatus.OK, content, kind)

    def _answer(self, status: HTTPStatus, content: bytes, kind: str) -> None:
        self.send_response(status)
        if status is HTTPStatus.UNAUTHORIZED:
            self.send_header("WWW-Authenticate", 'Basic realm="test"')
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass

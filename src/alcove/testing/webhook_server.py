"""A real webhook server: HTTPS on loopback, in a thread, with its own CA and scripted responses.

with WebhookServer(lambda path, review: allowed(review)) as webhook:
    configuration = {"clientConfig": webhook.client("/mutate"), ...}
    webhook.seen                      # the received reviews, in order
"""

from __future__ import annotations

import base64
import datetime
import ipaddress
import ssl
import tempfile
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import orjson
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from alcove.api.objects import Object

Respond = Callable[[str, Object], Any]
"""(path, review) → the response: an object to be sent as JSON, bytes or an iterator of bytes to be sent
unchanged, or an int, a bare HTTP status."""


def allowed(review: Object, **response: Any) -> Object:
    """An AdmissionReview that allows the write; `response` adds fields or overrides them."""
    answer = {"uid": review["request"]["uid"], "allowed": True, **response}
    return {"apiVersion": review["apiVersion"], "kind": "AdmissionReview", "response": answer}


def denied(review: Object, **status: Any) -> Object:
    return allowed(review, allowed=False, status=status)


def patched(review: Object, *operations: Object, **response: Any) -> Object:
    patch = base64.b64encode(orjson.dumps(list(operations))).decode()
    return allowed(review, patch=patch, patchType="JSONPatch", **response)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignores errors: some tests disconnect in the middle of a request."""


class WebhookServer:
    def __init__(self, respond: Respond, *names: str) -> None:
        """`names`: host names of its certificate, besides 127.0.0.1."""
        self._respond = respond
        self._certificate, self._key = issue(names)
        self._server: _Server | None = None
        self.seen: list[Object] = []
        self.paths: list[str] = []
        self.request_ids: list[str] = []
        """Request ids of the received requests, in order; empty for a request without one."""
        self.connections = 0

    @property
    def port(self) -> int:
        assert self._server is not None
        return int(self._server.server_address[1])

    @property
    def authority(self) -> str:
        """The CA certificate as a `caBundle`."""
        return base64.b64encode(self._certificate).decode()

    def client(self, path: str = "/") -> Object:
        return {"url": f"https://127.0.0.1:{self.port}{path}", "caBundle": self.authority}

    def __enter__(self) -> WebhookServer:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        with tempfile.TemporaryDirectory() as directory:
            pair = Path(directory) / "pair.pem"
            pair.touch(mode=0o600)
            pair.write_bytes(self._certificate + self._key)
            context.load_cert_chain(pair)
        self._server = _Server(("127.0.0.1", 0), _handler(self))
        # The handshake runs in the connection's thread: a client that never completes it blocks only itself.
        self._server.socket = context.wrap_socket(
            self._server.socket, server_side=True, do_handshake_on_connect=False
        )
        threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        ).start()
        return self

    def __exit__(self, *_exc: object) -> None:
        assert self._server is not None
        self._server.shutdown()
        self._server.server_close()
        self._server = None

    def answer(self, path: str, body: bytes) -> tuple[int, bytes | Iterator[bytes]]:
        review: Object = orjson.loads(body)
        self.seen.append(review)
        self.paths.append(path)
        response = self._respond(path.partition("?")[0], review)
        if isinstance(response, int):
            return response, b""
        return 200, response if isinstance(response, bytes | Iterator) else orjson.dumps(response)


def _handler(webhook: WebhookServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 60

        def setup(self) -> None:
            super().setup()
            webhook.connections += 1

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            webhook.request_ids.append(self.headers.get("Audit-ID", ""))
            status, output = webhook.answer(self.path, body)
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            if isinstance(output, bytes):
                self.send_header("Content-Length", str(len(output)))
                self.end_headers()
                self.wfile.write(output)
            else:
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                for part in output:
                    self.wfile.write(b"%x\r\n%b\r\n" % (len(part), part))
                self.wfile.write(b"0\r\n\r\n")

        def log_message(self, format: str, *args: Any) -> None:
            """Logs nothing: tests read `seen`."""

    return Handler


def issue(names: tuple[str, ...]) -> tuple[bytes, bytes]:
    """A certificate of its own authority for the names and 127.0.0.1, and its key, in PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "webhook")])
    now = datetime.datetime.now(datetime.UTC)
    alternatives: list[x509.GeneralName] = [x509.DNSName(name) for name in names]
    alternatives.append(x509.IPAddress(ipaddress.ip_address("127.0.0.1")))
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return certificate.public_bytes(pem), private

"""An OIDC issuer for tests: HTTPS on loopback with a discovery document and keys, which signs whatever claims it is asked to.

with OidcIssuer() as issuer:
    configuration = {"issuer": issuer.configured("my-audience"), ...}
    token = issuer.token("my-audience", sub="ann")
"""

from __future__ import annotations

import ssl
import tempfile
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import jwt
import orjson
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm

from alcove.api.objects import Object
from alcove.testing.webhook_server import issue

DISCOVERY, KEYS = "/.well-known/openid-configuration", "/keys"
AUTHORIZATION, TOKEN = "/authorize", "/token"


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignores errors: some tests disconnect in the middle of a request."""


class OidcIssuer:
    """Its answers may be replaced: `answers[path]` is what is sent instead, as bytes, or a status."""

    def __init__(self) -> None:
        certificate, self._private = issue(())
        self.authority = certificate.decode()
        """Its CA certificate, in PEM."""
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.key_id = "first"
        self.more_keys: list[Object] = []
        self.answers: dict[str, bytes | int] = {}
        self.requests: Counter[str] = Counter()
        self.exchanged: list[dict[str, str]] = []
        """The forms that its token endpoint got; its answers are in `answers`."""
        self._server: _Server | None = None

    @property
    def url(self) -> str:
        assert self._server is not None
        return f"https://127.0.0.1:{self._server.server_address[1]}"

    def configured(self, *audiences: str) -> Object:
        """It, in an AuthenticationConfiguration."""
        policy = {"audienceMatchPolicy": "MatchAny"} if len(audiences) > 1 else {}
        return {
            "url": self.url,
            "audiences": list(audiences),
            "certificateAuthority": self.authority,
            **policy,
        }

    def token(self, audience: str, **claims: Any) -> str:
        now = int(time.time())
        given = {"iss": self.url, "aud": audience, "sub": "ann", "iat": now, "exp": now + 3600, **claims}
        present = {name: value for name, value in given.items() if value is not None}
        return jwt.encode(present, self.key, "ES256", headers={"kid": self.key_id})

    def rotate(self, key_id: str) -> None:
        """Signs with a new key from now on, and publishes no other."""
        self.key, self.key_id = ec.generate_private_key(ec.SECP256R1()), key_id

    def __enter__(self) -> OidcIssuer:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        with tempfile.TemporaryDirectory() as directory:
            pair = Path(directory) / "pair.pem"
            pair.touch(mode=0o600)
            pair.write_bytes(self.authority.encode() + self._private)
            context.load_cert_chain(pair)
        self._server = _Server(("127.0.0.1", 0), _handler(self))
        self._server.socket = context.wrap_socket(
            self._server.socket, server_side=True, do_handshake_on_connect=False
        )
        serve = self._server.serve_forever
        threading.Thread(target=serve, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(self, *_exc: object) -> None:
        assert self._server is not None
        self._server.shutdown()
        self._server.server_close()

    def answer(self, path: str) -> tuple[int, bytes]:
        self.requests[path] += 1
        replaced = self.answers.get(path)
        if isinstance(replaced, int):
            return replaced, b""
        if replaced is not None:
            return 200, replaced
        if path == DISCOVERY:
            paths = {"jwks_uri": KEYS, "authorization_endpoint": AUTHORIZATION, "token_endpoint": TOKEN}
            endpoints = {name: f"{self.url}{path}" for name, path in paths.items()}
            return 200, orjson.dumps({"issuer": self.url, **endpoints})
        if path == KEYS:
            public = ECAlgorithm.to_jwk(self.key.public_key(), as_dict=True)
            own = {**public, "kid": self.key_id, "use": "sig"}
            return 200, orjson.dumps({"keys": [*self.more_keys, own]})
        return 404, b""


def _handler(issuer: OidcIssuer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 60

        def do_POST(self) -> None:
            form = self.rfile.read(int(self.headers["Content-Length"])).decode()
            issuer.exchanged.append(dict(parse_qsl(form)))
            self.do_GET()

        def do_GET(self) -> None:
            status, body = issuer.answer(self.path)
            self.send_response(status)
            if status in (301, 302):
                self.send_header("Location", f"{issuer.url}{KEYS}")
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Logs nothing: tests read `requests`."""

    return Handler

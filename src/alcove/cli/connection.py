"""A short-lived connection to an API server, as a kubeconfig describes it. For verbs; processes use `client/`."""

from __future__ import annotations

import base64
import http.client
import os
import ssl
import tempfile
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import orjson
import yaml
from msgspec import Struct

from alcove.api.errors import ApiError, from_status
from alcove.api.objects import Object

TIMEOUT_SECONDS = 30.0


class ConnectionFailed(Exception):
    """The server cannot be reached, or the kubeconfig does not say how. The message says what to do."""


class Account(Struct, frozen=True):
    """What a kubeconfig's current context comes to."""

    server: str
    ca_pem: bytes
    certificate_pem: bytes
    key_pem: bytes
    token: str


def default_kubeconfig() -> Path:
    given = os.environ.get("KUBECONFIG")
    return Path(given.split(os.pathsep)[0]) if given else Path.home() / ".kube" / "config"


def load(path: Path) -> Account:
    """Raises ConnectionFailed."""
    try:
        config = yaml.safe_load(path.read_text())
        context = _named(config["contexts"], config["current-context"])["context"]
        cluster = _named(config["clusters"], context["cluster"])["cluster"]
        user = _named(config["users"], context["user"])["user"]
    except OSError as error:
        raise ConnectionFailed(
            f"cannot read {path}: {error.strerror}; name another with --kubeconfig"
        ) from error
    except (KeyError, TypeError, StopIteration, yaml.YAMLError) as error:
        raise ConnectionFailed(f"{path} is not a kubeconfig with a current context") from error
    return Account(
        cluster["server"],
        _data(cluster, "certificate-authority"),
        _data(user, "client-certificate"),
        _data(user, "client-key"),
        user.get("token", ""),
    )


def _named(entries: list[Any], name: str) -> Any:
    return next(entry for entry in entries if entry["name"] == name)


def _data(holder: Any, field: str) -> bytes:
    if f"{field}-data" in holder:
        return base64.b64decode(holder[f"{field}-data"])
    return Path(holder[field]).read_bytes() if field in holder else b""


class Connection:
    def __init__(self, account: Account) -> None:
        self._account = account
        self._url = urlsplit(account.server)
        self.server = f"{self._url.scheme}://{self._url.netloc}"
        """Without a tenant's prefix."""

    def request(
        self, method: str, path: str, body: Object | None = None, headers: dict[str, str] | None = None
    ) -> Any:
        """The decoded answer. Raises ApiError for a refusal, ConnectionFailed without an answer."""
        sent = {"Content-Type": "application/json", "Accept": "application/json", **(headers or {})}
        if self._account.token:
            sent["Authorization"] = f"Bearer {self._account.token}"
        connection = http.client.HTTPSConnection(
            self._url.hostname or "", self._url.port or 443, timeout=TIMEOUT_SECONDS, context=self._tls()
        )
        try:
            connection.request(method, path, orjson.dumps(body) if body is not None else None, sent)
            response = connection.getresponse()
            answer = response.read()
        except OSError as error:
            raise ConnectionFailed(
                f"no answer from {self.server}: {error}; is the API server running?"
            ) from error
        finally:
            connection.close()
        value = orjson.loads(answer)
        if response.status >= 400:
            raise from_status(value)
        return value

    def _tls(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cadata=self._account.ca_pem.decode() or None)
        if self._account.certificate_pem:
            with tempfile.NamedTemporaryFile() as pair:
                pair.write(self._account.certificate_pem + self._account.key_pem)
                pair.flush()
                context.load_cert_chain(pair.name)
        return context

    @property
    def ca_pem(self) -> bytes:
        return self._account.ca_pem


__all__ = ["Account", "ApiError", "Connection", "ConnectionFailed", "default_kubeconfig", "load"]

"""A short-lived connection to an API server, as a kubeconfig describes it. For verbs; processes use `client/`."""

from __future__ import annotations

import http.client
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import orjson

from alcove.api.errors import ApiError, from_status
from alcove.api.objects import Object
from alcove.client import kubeconfig
from alcove.client.errors import BadKubeconfig
from alcove.client.kubeconfig import Account
from alcove.client.kubeconfig import default_path as default_kubeconfig

TIMEOUT_SECONDS = 30.0


class ConnectionFailed(Exception):
    """The server cannot be reached, or the kubeconfig does not say how. The message says what to do."""


def load(path: Path) -> Account:
    """Raises ConnectionFailed."""
    try:
        account = kubeconfig.load(path)
        account.tls()  # Certificates that cannot be used are told now, with the file's other faults.
        return account
    except BadKubeconfig as error:
        raise ConnectionFailed(str(error)) from error


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
            self._url.hostname or "",
            self._url.port or 443,
            timeout=TIMEOUT_SECONDS,
            context=self._account.tls(),
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

    @property
    def ca_pem(self) -> bytes:
        return self._account.ca_pem


__all__ = ["Account", "ApiError", "Connection", "ConnectionFailed", "default_kubeconfig", "load"]

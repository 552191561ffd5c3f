"""A short-lived connection to an API server, as a kubeconfig describes it. For verbs; processes use `client/`."""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import orjson

from alcove.api.errors import ApiError, from_status
from alcove.api.objects import Object
from alcove.client import kubeconfig
from alcove.client.errors import BadKubeconfig
from alcove.client.kubeconfig import KubeconfigUser
from alcove.client.kubeconfig import default_path as default_kubeconfig

TIMEOUT_SECONDS = 30.0


class ConnectionFailed(Exception):
    """The server cannot be reached, or the kubeconfig does not say how. The message says what to do."""


def load(path: Path) -> KubeconfigUser:
    """Raises ConnectionFailed."""
    try:
        user = kubeconfig.load(path)
        user.tls()  # Certificates that cannot be used are told now, with the file's other faults.
        return user
    except BadKubeconfig as error:
        raise ConnectionFailed(str(error)) from error


class CliConnection:
    """One connection, kept between requests and opened again when the server has closed it."""

    def __init__(self, user: KubeconfigUser) -> None:
        self._user = user
        self._url = urlsplit(user.server)
        self._tls = user.tls()
        self._open: http.client.HTTPSConnection | None = None
        self.server = f"{self._url.scheme}://{self._url.netloc}"
        """Without a tenant's prefix."""

    def request(
        self, method: str, path: str, body: Object | None = None, headers: dict[str, str] | None = None
    ) -> Any:
        """The decoded answer. Raises ApiError for a refusal, ConnectionFailed without an answer."""
        status, answer = self._exchange(method, path, body, headers or {})
        value = self._decoded(answer)
        if status >= 400:
            raise from_status(value)
        return value

    def text(self, path: str) -> str:
        """What the server answers in plain text, such as metrics. Raises as `request` does."""
        status, answer = self._exchange("GET", path, None, {"Accept": "*/*"})
        if status >= 400:
            raise from_status(self._decoded(answer))
        return answer.decode(errors="replace")

    def lines(self, path: str) -> Iterator[Any]:
        """The decoded lines of an answer that goes on, such as a watch, until the server ends it."""
        connection = self._dial()
        try:
            response = self._send(connection, "GET", path, None, {})
            if response.status >= 400:
                raise from_status(self._decoded(response.read()))
            for line in response:
                yield orjson.loads(line)
        except TimeoutError:
            return  # Nothing happened for long: the caller watches again from where it was.
        except OSError as error:
            raise self._failed(error) from error
        finally:
            connection.close()

    def close(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None

    def _exchange(
        self, method: str, path: str, body: Object | None, headers: dict[str, str]
    ) -> tuple[int, bytes]:
        was_open = self._open is not None
        connection = self._open = self._open or self._dial()
        try:
            response = self._send(connection, method, path, body, headers)
            return response.status, response.read()
        except (OSError, http.client.HTTPException) as error:
            self.close()
            # A kept connection may have been closed in between; nothing was answered, so ask once more.
            if was_open and isinstance(
                error, http.client.RemoteDisconnected | ConnectionError | ssl.SSLError
            ):
                return self._exchange(method, path, body, headers)
            raise self._failed(error) from error

    def _dial(self) -> http.client.HTTPSConnection:
        host, port = self._url.hostname or "", self._url.port or 443
        return http.client.HTTPSConnection(host, port, timeout=TIMEOUT_SECONDS, context=self._tls)

    def _send(
        self,
        connection: http.client.HTTPSConnection,
        method: str,
        path: str,
        body: Object | None,
        headers: dict[str, str],
    ) -> http.client.HTTPResponse:
        sent = {"Content-Type": "application/json", "Accept": "application/json", **headers}
        if self._user.token:
            sent["Authorization"] = f"Bearer {self._user.token}"
        connection.request(method, path, orjson.dumps(body) if body is not None else None, sent)
        return connection.getresponse()

    def _decoded(self, answer: bytes) -> Any:
        try:
            return orjson.loads(answer)
        except orjson.JSONDecodeError as error:
            raise ConnectionFailed(
                f"{self.server} answers, but not as a Kubernetes API; is the address right?"
            ) from error

    def _failed(self, error: Exception) -> ConnectionFailed:
        if isinstance(error, ssl.SSLCertVerificationError):
            return ConnectionFailed(
                f"{self.server} is not the server this kubeconfig trusts: {error.verify_message}"
            )
        return ConnectionFailed(
            f"no answer from {self.server}: {error}; is it running? (`alcove status`, `alcove up`)"
        )

    @property
    def ca_pem(self) -> bytes:
        return self._user.ca_pem


__all__ = ["ApiError", "CliConnection", "ConnectionFailed", "KubeconfigUser", "default_kubeconfig", "load"]

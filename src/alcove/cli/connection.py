"""A short-lived, blocking connection to an API server for CLI commands. Processes use `client/` instead."""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import orjson
from msgspec import structs

from alcove.api.errors import ApiError, from_status
from alcove.api.objects import Object
from alcove.client import kubeconfig
from alcove.client.errors import BadKubeconfig
from alcove.client.kubeconfig import KubeconfigUser
from alcove.client.kubeconfig import default_path as default_kubeconfig

TIMEOUT_SECONDS = 30.0


class ConnectionFailed(Exception):
    """The server cannot be reached, or the kubeconfig is invalid. The message says what to do."""


def load(path: Path, context: str = "") -> KubeconfigUser:
    """The named or the current context of a kubeconfig. Raises ConnectionFailed."""
    try:
        user = kubeconfig.load(path, context)
        user.tls()  # Report unusable certificates together with the file's other errors.
        return user
    except BadKubeconfig as error:
        raise ConnectionFailed(str(error)) from error


class CliConnection:
    """One keep-alive connection. It is opened again after the server closed it."""

    def __init__(self, user: KubeconfigUser) -> None:
        self._user = user
        self._url = urlsplit(user.server)
        self._tls = user.tls()
        self._open: http.client.HTTPSConnection | None = None
        self.server = f"{self._url.scheme}://{self._url.netloc}"
        """The server's URL without a tenant's path."""
        self.warnings: list[str] = []
        """Of the last response."""

    def request(
        self, method: str, path: str, body: Object | None = None, headers: dict[str, str] | None = None
    ) -> Any:
        """The decoded response. Raises ApiError for an error status, ConnectionFailed if there is no
        response."""
        status, content = self._exchange(method, path, body, headers or {})
        value = self._decode(content)
        if status >= 400:
            raise from_status(value)
        return value

    def content(self, path: str) -> bytes:
        """The response to a GET as it was sent. Raises ApiError and ConnectionFailed."""
        status, content = self._exchange("GET", path, None, {})
        if status >= 400:
            raise from_status(self._decode(content))
        return content

    def text(self, path: str) -> str:
        """A plain-text response, such as metrics. Raises ApiError and ConnectionFailed."""
        status, content = self._exchange("GET", path, None, {"Accept": "*/*"})
        if status >= 400:
            raise from_status(self._decode(content))
        return content.decode(errors="replace")

    def lines(self, path: str, idle_seconds_max: float = TIMEOUT_SECONDS) -> Iterator[Any]:
        """The decoded lines of a streamed response, such as a watch, until the server ends it or is silent."""
        connection = self._dial()
        connection.timeout = idle_seconds_max
        try:
            response = self._send(connection, "GET", path, None, {})
            if response.status >= 400:
                raise from_status(self._decode(response.read()))
            for line in response:
                yield orjson.loads(line)
        except TimeoutError:
            return  # An idle watch timed out: the caller resumes from its last resourceVersion.
        except OSError as error:
            raise self._connection_error(error) from error
        finally:
            connection.close()

    def stream(self, method: str, path: str, body: Object, seconds_max: float) -> Iterator[bytes]:
        """A response's body as it comes, whatever time passes between its parts, up to `seconds_max`. Raises ApiError and
        ConnectionFailed."""
        connection = self._dial()
        connection.timeout = TIMEOUT_SECONDS + seconds_max
        try:
            response = self._send(connection, method, path, body, {"Accept": "*/*"})
            if response.status >= 400:
                raise from_status(self._decode(response.read()))
            while data := response.read1(1 << 16):
                yield data
        except (OSError, http.client.HTTPException) as error:
            raise self._connection_error(error) from error
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
            self.warnings = [_warning(each) for each in response.headers.get_all("Warning") or ()]
            return response.status, response.read()
        except (OSError, http.client.HTTPException) as error:
            self.close()
            # The server may have closed the idle connection; no response was sent, so retry once.
            if was_open and isinstance(
                error, http.client.RemoteDisconnected | ConnectionError | ssl.SSLError
            ):
                return self._exchange(method, path, body, headers)
            raise self._connection_error(error) from error

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
        request_headers = {"Content-Type": "application/json", "Accept": "application/json", **headers}
        if self._user.token:
            request_headers["Authorization"] = f"Bearer {self._user.token}"
        connection.request(method, path, orjson.dumps(body) if body is not None else None, request_headers)
        return connection.getresponse()

    def _decode(self, content: bytes) -> Any:
        try:
            return orjson.loads(content)
        except orjson.JSONDecodeError as error:
            raise ConnectionFailed(
                f"{self.server} did not respond as a Kubernetes API server; check the server address"
            ) from error

    def _connection_error(self, error: Exception) -> ConnectionFailed:
        if isinstance(error, ssl.SSLCertVerificationError):
            return ConnectionFailed(
                f"{self.server} is not the server this kubeconfig trusts: {error.verify_message}"
            )
        return ConnectionFailed(
            f"cannot connect to {self.server}: {error}; is it running? (`alcove status`, `alcove up`)"
        )

    def elsewhere(self, server: str, ca_pem: bytes) -> CliConnection:
        """A connection to another API server, as the same user."""
        return CliConnection(structs.replace(self._user, server=server, ca_pem=ca_pem))

    @property
    def ca_pem(self) -> bytes:
        return self._user.ca_pem


__all__ = ["ApiError", "CliConnection", "ConnectionFailed", "KubeconfigUser", "default_kubeconfig", "load"]


def _warning(header: str) -> str:
    """The text of a warning header: `299 - "text"`."""
    _, _, text = header.partition('"')
    return text.removesuffix('"').replace('\\"', '"').replace("\\\\", "\\")

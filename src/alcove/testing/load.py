"""Tenant load during failures: writers that record acknowledged writes and the gaps between them, and
followers that resume their watches at any server and record every event.
"""

from __future__ import annotations

import contextlib
import http.client
import itertools
import socket
import ssl
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import orjson

from alcove.api.objects import Object
from alcove.cli.connection import load

CONNECT_SECONDS_MAX = 10.0
ANSWER_SECONDS_MAX = 30.0
PAUSE_SECONDS = 0.02
MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
BROKEN = (OSError, http.client.HTTPException)


class LoadClient:
    """A client of one server for one user, with its own connections and without retries."""

    def __init__(self, kubeconfig: Path, source: str = "") -> None:
        """`source` is the address that the client's connections come from; empty for the system's choice."""
        user = load(kubeconfig)
        self._source = (source, 0) if source else None
        url, _, self._prefix = user.server.removeprefix("https://").partition("/")
        self._host, _, port = url.partition(":")
        self._port = int(port)
        self._tls = ssl.create_default_context(cadata=user.ca_pem.decode())
        with tempfile.NamedTemporaryFile() as pair:
            pair.write(user.certificate_pem + user.key_pem)
            pair.flush()
            self._tls.load_cert_chain(pair.name)

    def connect(self) -> http.client.HTTPSConnection:
        connection = http.client.HTTPSConnection(
            self._host,
            self._port,
            context=self._tls,
            timeout=CONNECT_SECONDS_MAX,
            source_address=self._source,
        )
        connection.connect()
        assert isinstance(connection.sock, socket.socket)
        connection.sock.settimeout(ANSWER_SECONDS_MAX)
        return connection

    def path(self, path: str) -> str:
        return f"/{self._prefix}{path}" if self._prefix else path


class LoadWriter(threading.Thread):
    """Creates objects with different names one after the other; switches to the next server on an error."""

    def __init__(
        self, name: str, clients: list[LoadClient], path: str, make: Callable[[str], Object]
    ) -> None:
        super().__init__(daemon=True)
        self._prefix = name
        self._doors = itertools.cycle(clients)
        self._path = path
        self._make = make
        self._stopping = threading.Event()
        self.acknowledged: dict[str, int] = {}
        """Name → revision of acknowledged objects."""
        self.times: list[float] = []
        """Times of the acknowledgements."""
        self.refusals: list[str] = []

    def run(self) -> None:
        door = next(self._doors)
        connection: http.client.HTTPSConnection | None = None
        for number in itertools.count():
            if self._stopping.wait(PAUSE_SECONDS):
                return
            name = f"{self._prefix}-{number}"
            try:
                connection = connection or door.connect()
                self._write(connection, door, name)
            except BROKEN as error:
                self.refusals.append(f"{type(error).__name__} {error}")
                if connection is not None:
                    connection.close()
                connection, door = None, next(self._doors)

    def _write(self, connection: http.client.HTTPSConnection, door: LoadClient, name: str) -> None:
        body = orjson.dumps(self._make(name))
        connection.request("POST", door.path(self._path), body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        answer = response.read()
        if response.status != 201:
            raise ConnectionError(f"{response.status} {answer.decode()[:200]}")
        self.acknowledged[name] = int(orjson.loads(answer)["metadata"]["resourceVersion"])
        self.times.append(time.monotonic())

    def stop(self) -> None:
        self._stopping.set()
        self.join()

    def longest_gap(self, since: float, until: float) -> float:
        """The longest time without an acknowledgement."""
        marks = [since, *(each for each in list(self.times) if since < each < until), until]
        return max(later - earlier for earlier, later in itertools.pairwise(marks))


class Follower(threading.Thread):
    """Lists once, then resumes watches from the last observed revision, at any server that responds."""

    def __init__(self, clients: list[LoadClient], path: str) -> None:
        super().__init__(daemon=True)
        self._doors = itertools.cycle(clients)
        self._path = path
        self._stopping = threading.Event()
        self._connection: http.client.HTTPSConnection | None = None
        self.revision = self._list()
        self.events: list[tuple[int, str, Object]] = []
        """Revision, type and object of each event, in order of arrival."""
        self.resumed = 0
        self.errors: list[str] = []

    def _list(self) -> int:
        door = next(self._doors)
        connection = door.connect()
        connection.request("GET", door.path(self._path))
        response = orjson.loads(connection.getresponse().read())
        connection.close()
        return int(response["metadata"]["resourceVersion"])

    def run(self) -> None:
        while not self._stopping.is_set():
            with contextlib.suppress(*BROKEN):
                self._follow(next(self._doors))
            self.resumed += 1
            self._stopping.wait(PAUSE_SECONDS)

    def _follow(self, door: LoadClient) -> None:
        connection = self._connection = door.connect()
        query = f"?watch=true&allowWatchBookmarks=true&timeoutSeconds=600&resourceVersion={self.revision}"
        try:
            connection.request("GET", door.path(self._path) + query)
            response = connection.getresponse()
            while line := response.readline():
                if line.endswith(b"\n"):
                    self._take(orjson.loads(line))
        finally:
            connection.close()

    def _take(self, event: Object) -> None:
        if event["type"] == "ERROR":
            self.errors.append(str(event["object"]))
            raise ConnectionError(event["object"]["message"])
        revision = int(event["object"]["metadata"]["resourceVersion"])
        self.revision = revision
        if event["type"] != "BOOKMARK":
            self.events.append((revision, event["type"], event["object"]))

    def stop(self) -> None:
        self._stopping.set()
        connection = self._connection
        if connection is not None and connection.sock is not None:
            with contextlib.suppress(OSError):
                connection.sock.shutdown(socket.SHUT_RDWR)
        self.join()

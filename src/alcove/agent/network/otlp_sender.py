"""Sends flows to an OpenTelemetry collector, by OTLP over HTTP.

Nothing waits for the collector: flows are put into a bounded queue, from which the oldest are dropped. What it cannot take now
is sent again, later each time; what it refuses is dropped. Both are counted.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections import deque
from collections.abc import Callable, Sequence
from enum import Enum
from pathlib import Path
from urllib.parse import urlsplit

from msgspec import Struct

from alcove.agent.network import otlp_records
from alcove.api.node_api import FlowReport
from alcove.http.client import HttpClientConnection, ReceivedResponse
from alcove.http.errors import HttpError

log = logging.getLogger(__name__)

QUEUE_MAX = 10_000
BATCH_MAX = 250
SEND_SECONDS_MAX = 10.0
RETRY_SECONDS, RETRY_SECONDS_MAX = 1.0, 60.0
RESPONSE_BYTES_MAX = 64 << 10
LOGS_PATH = "/v1/logs"
_RETRIED = frozenset({429, 502, 503, 504})
"""The statuses of which OTLP says that the request may be sent again."""


class Outcome(Enum):
    TAKEN = "taken"
    REFUSED = "refused"
    UNAVAILABLE = "unavailable"


class OtlpCollector(Struct, frozen=True):
    """Where flows are sent."""

    host: str
    port: int
    path: str
    tls: ssl.SSLContext | None
    headers: tuple[tuple[str, str], ...] = ()

    @classmethod
    def parse(cls, url: str, ca: Path | None = None, headers: Path | None = None) -> OtlpCollector:
        """`url` as `https://collector:4318`; `/v1/logs` is added to one without a path. `ca` has the authorities to trust
        instead of the machine's. `headers` is a file with lines `Name: value`. Raises ValueError, OSError."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.username:
            raise ValueError(f'invalid URL "{url}": must be http://HOST:PORT or https://HOST:PORT')
        is_secure = parts.scheme == "https"
        path = parts.path if parts.path.strip("/") else LOGS_PATH
        tls = ssl.create_default_context(cafile=ca) if is_secure else None
        fields = _fields(headers.read_text()) if headers is not None else ()
        return cls(parts.hostname, parts.port or 4318, path, tls, fields)


class OtlpSender:
    def __init__(self, collector: OtlpCollector, node: str, clock: Callable[[], float] = time.time) -> None:
        self._collector = collector
        self._node = node
        self._clock = clock
        self._queue: deque[FlowReport] = deque()
        self._filled = asyncio.Event()
        self._connection: HttpClientConnection | None = None
        self._is_failing = False
        self.sent = 0
        """Flows that the collector has taken."""
        self.dropped = 0
        """Flows that it has refused, or that had to make room in the queue."""

    async def offer(self, flows: Sequence[FlowReport]) -> None:
        """Never waits. Of more than fit, the oldest are dropped."""
        self._queue.extend(flows)
        while len(self._queue) > QUEUE_MAX:
            self._queue.popleft()
            self.dropped += 1
        if self._queue:
            self._filled.set()

    async def run(self) -> None:
        """Runs until cancelled."""
        try:
            while True:
                await self._filled.wait()
                batch = [self._queue.popleft() for _ in range(min(BATCH_MAX, len(self._queue)))]
                if not self._queue:
                    self._filled.clear()
                await self._deliver(batch)
        finally:
            self._disconnect()

    async def _deliver(self, batch: Sequence[FlowReport]) -> None:
        """Returns when the batch has been taken or refused."""
        # In a thread: the event loop also serves DNS.
        body = await asyncio.to_thread(otlp_records.encode, self._node, batch, self._clock())
        pause = RETRY_SECONDS
        while (outcome := await self._attempt(body, len(batch))) is Outcome.UNAVAILABLE:
            await asyncio.sleep(pause)
            pause = min(2 * pause, RETRY_SECONDS_MAX)
        if outcome is Outcome.REFUSED:
            self.dropped += len(batch)

    async def _attempt(self, body: bytes, count: int) -> Outcome:
        try:
            async with asyncio.timeout(SEND_SECONDS_MAX):
                response = await self._exchange(body)
        except (HttpError, OSError, TimeoutError) as error:
            self._disconnect()
            return self._failed(Outcome.UNAVAILABLE, str(error) or "no response in time")
        if 200 <= response.status < 300:
            refused = min(otlp_records.rejected(response.body), count)
            self.sent += count - refused
            self.dropped += refused
            self._is_failing = False
            return Outcome.TAKEN
        is_retried = response.status in _RETRIED
        outcome = Outcome.UNAVAILABLE if is_retried else Outcome.REFUSED
        return self._failed(outcome, f"status {response.status}")

    async def _exchange(self, body: bytes) -> ReceivedResponse:
        collector = self._collector
        if self._connection is None or not self._connection.is_reusable:
            self._disconnect()
            _, self._connection = await asyncio.get_running_loop().create_connection(
                HttpClientConnection, collector.host, collector.port, ssl=collector.tls
            )
        headers = {
            "Host": f"{collector.host}:{collector.port}",
            "Content-Type": "application/x-protobuf",
            "Content-Length": str(len(body)),
            **dict(collector.headers),
        }
        return await self._connection.exchange(
            "POST", collector.path, headers, body, bytes_max=RESPONSE_BYTES_MAX
        )

    def _failed(self, outcome: Outcome, reason: str) -> Outcome:
        """Logs the first failure after a success."""
        if not self._is_failing:
            log.warning(
                "failed to send flows to the collector", extra={"outcome": outcome.value, "error": reason}
            )
        self._is_failing = True
        return outcome

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.abort()


def _fields(text: str) -> tuple[tuple[str, str], ...]:
    """The headers in a file. Raises ValueError."""
    fields = []
    for line in text.splitlines():
        name, colon, value = (part.strip() for part in line.partition(":"))
        if not line.strip():
            continue
        if not (colon and name.isascii() and name.replace("-", "").isalnum() and value.isprintable()):
            raise ValueError("invalid file of headers: each line must be Name: value")
        fields.append((name, value))
    return tuple(fields)

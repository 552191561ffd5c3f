"""The audit log: each request's caller, target and outcome, as JSON lines.

Lines are `Event`s of `audit.k8s.io/v1` at level Metadata, with the tenant added: never a body, a header, a
token or a query string. A request only puts its entry into a buffer; a thread writes. The buffer is bounded:
entries that do not fit are dropped and counted, so a request never waits for the log.
"""

import asyncio
import logging
import os
from asyncio import AbstractEventLoop, TimerHandle
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from time import gmtime, strftime

import msgspec
from msgspec import Struct

from alcove.api.ids import TenantId
from alcove.apiserver.identity import Identity

logger = logging.getLogger(__name__)

ENTRIES_PER_ENCODING = 64
"""Encoded together on the event loop, in about 0.2 ms. A thread would take that time from the loop too
(GIL)."""
READS = frozenset({"get", "list", "watch"})
HAND_OVER_SECONDS = 0.25
HAND_OVER_BYTES = 1 << 20


class AuditLimits(Struct, frozen=True, kw_only=True):
    file_bytes_max: int = 100 << 20
    files_max: int = 10
    """Including the one being written."""
    buffer_bytes_max: int = 32 << 20


class AuditEntry(Struct, frozen=True, kw_only=True):
    """A request and its response, as the pipeline knows them."""

    received: float
    """Seconds since 1970."""
    seconds: float
    verb: str
    path: str
    tenant: TenantId
    """The requested tenant."""
    caller: Identity
    """The authenticated user."""
    identity: Identity
    """The effective user: differs from `caller` when impersonating."""
    code: int
    audit_id: str
    """The request's id; the client may have chosen it."""
    source: str = ""
    """The peer's address."""
    user_agent: str = ""
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    reason: str = ""
    """A failure's `Status.reason`."""
    stage: str = "ResponseComplete"
    annotations: Mapping[str, str] = {}


class AuditLog:
    """The log in the file `path`; use it only from the event loop that created it."""

    def __init__(self, path: Path, limits: AuditLimits | None = None, *, reads: bool = True) -> None:
        """If `reads` is False, requests with a read verb are recorded only if they failed."""
        self._reads = reads
        self._loop: AbstractEventLoop = asyncio.get_running_loop()
        self._limits = limits or AuditLimits()
        self._entries: list[AuditEntry] = []
        self._encoded = bytearray()
        self._handed_bytes = 0
        self._timer: TimerHandle | None = None
        self._writer = _Writer(path, self._limits)
        self.recorded = 0
        self.dropped = 0
        """Entries that were dropped because the buffer was full."""

    @property
    def failed(self) -> int:
        """Bytes that could not be written."""
        return self._writer.failed_bytes

    def record(self, entry: AuditEntry) -> None:
        if not self._reads and entry.verb in READS and entry.code < 400:
            return
        self.recorded += 1
        self._entries.append(entry)
        if len(self._entries) >= ENTRIES_PER_ENCODING:
            self._encode()
        elif self._timer is None:
            self._timer = self._loop.call_later(HAND_OVER_SECONDS, self._flush)

    async def close(self) -> None:
        """Returns when everything recorded is written."""
        if self._timer is not None:
            self._timer.cancel()
        self._flush()
        await asyncio.to_thread(self._writer.stop)

    def _encode(self) -> None:
        entries, self._entries = self._entries, []
        unwritten = self._handed_bytes - self._writer.done_bytes + len(self._encoded)
        if unwritten > self._limits.buffer_bytes_max:
            self.dropped += len(entries)
            return
        for entry in entries:
            _encoder.encode_into(_event(entry), self._encoded, -1)
            self._encoded += b"\n"
        if len(self._encoded) >= HAND_OVER_BYTES:
            self._flush()

    def _flush(self) -> None:
        self._timer = None
        if self._entries:
            self._encode()
        if self._encoded:
            lines, self._encoded = self._encoded, bytearray()
            self._handed_bytes += len(lines)
            self._writer.lines.put(lines)


class _Writer:
    """The thread that writes and rotates the files."""

    def __init__(self, path: Path, limits: AuditLimits) -> None:
        self.lines: SimpleQueue[bytearray | None] = SimpleQueue()
        self.done_bytes = 0
        self.failed_bytes = 0
        self._path = path
        self._limits = limits
        self._thread = Thread(target=self._run, name="audit-writer", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self.lines.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (lines := self.lines.get()) is not None:
            try:
                self._write(lines)
            except OSError as error:
                self.failed_bytes += len(lines)
                logger.exception(
                    "failed to write audit log; events lost",
                    extra={"path": str(self._path), "error": str(error)},
                )
            self.done_bytes += len(lines)

    def _write(self, lines: bytearray) -> None:
        # Opened for each write, so that a file that was moved or deleted is created again.
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            remaining = memoryview(lines)
            while remaining:
                remaining = remaining[os.write(descriptor, remaining) :]
            size = os.fstat(descriptor).st_size
        finally:
            os.close(descriptor)
        if size >= self._limits.file_bytes_max:
            self._rotate()

    def _rotate(self) -> None:
        """Renames `audit.log` to `audit.log.1`, that to `.2`, and so on; the oldest is overwritten."""
        names = [self._path, *(Path(f"{self._path}.{n}") for n in range(1, self._limits.files_max))]
        for older, newer in zip(reversed(names[1:]), reversed(names[:-1]), strict=True):
            if newer.exists():
                newer.replace(older)
        if len(names) == 1:
            self._path.unlink()


class _User(Struct, omit_defaults=True):
    username: str
    tenant: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = {}


class _ObjectRef(Struct, omit_defaults=True, rename={"api_group": "apiGroup", "api_version": "apiVersion"}):
    tenant: str
    resource: str
    namespace: str = ""
    name: str = ""
    api_group: str = ""
    api_version: str = ""
    subresource: str = ""


class _Status(Struct, omit_defaults=True):
    code: int
    metadata: dict[str, str]
    status: str = ""
    reason: str = ""


class _Event(Struct, kw_only=True, omit_defaults=True, rename="camel"):
    kind: str
    api_version: str
    level: str
    audit_id: str = msgspec.field(name="auditID")
    stage: str
    request_uri: str = msgspec.field(name="requestURI")
    verb: str
    tenant: str
    user: _User
    impersonated_user: _User | None = None
    source_ips: tuple[str, ...] = msgspec.field(name="sourceIPs", default=())
    user_agent: str = ""
    object_ref: _ObjectRef | None = None
    response_status: _Status
    request_received_timestamp: str
    stage_timestamp: str
    latency_seconds: float
    annotations: Mapping[str, str] = {}


_encoder = msgspec.json.Encoder()


def _event(entry: AuditEntry) -> _Event:
    impersonating = entry.identity is not entry.caller and entry.identity != entry.caller
    return _Event(
        kind="Event",
        api_version="audit.k8s.io/v1",
        level="Metadata",
        audit_id=entry.audit_id,
        stage=entry.stage,
        # A query string may contain a command to execute, or a token.
        request_uri=entry.path.partition("?")[0],
        verb=entry.verb,
        tenant=entry.tenant,
        user=_user(entry.caller),
        impersonated_user=_user(entry.identity) if impersonating else None,
        source_ips=(entry.source,) if entry.source else (),
        user_agent=entry.user_agent,
        object_ref=_object_ref(entry) if entry.resource else None,
        response_status=_Status(entry.code, {}, "Failure" if entry.code >= 400 else "", entry.reason),
        request_received_timestamp=_timestamp(entry.received),
        stage_timestamp=_timestamp(entry.received + entry.seconds),
        latency_seconds=round(entry.seconds, 6),
        annotations=entry.annotations,
    )


def _user(identity: Identity) -> _User:
    return _User(identity.user, identity.tenant, identity.uid, identity.groups, identity.extra)


def _object_ref(entry: AuditEntry) -> _ObjectRef:
    return _ObjectRef(
        entry.tenant,
        entry.resource,
        entry.namespace,
        entry.name,
        entry.group,
        entry.version,
        entry.subresource,
    )


def _timestamp(moment: float) -> str:
    second, micros = divmod(round(moment * 1_000_000), 1_000_000)
    return f"{_second(second)}.{micros:06d}Z"


@lru_cache(maxsize=16)
def _second(second: int) -> str:
    return strftime("%Y-%m-%dT%H:%M:%S", gmtime(second))

"""The audit log: each request's caller, target and outcome, as JSON lines.

Lines are `Event`s of `audit.k8s.io/v1` at level Metadata, with the tenant added: never a body, a header, a
token or a query string. What a client chose is cut to a length. A request only puts its entry into a buffer; a
thread writes it to the files of the caller's tenant (`audit_files.py`). The buffer is bounded per tenant: entries
that do not fit are dropped and counted, so a request never waits for the log.
"""

import asyncio
from asyncio import AbstractEventLoop, TimerHandle
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from time import gmtime, strftime

import msgspec
from msgspec import Struct

from alcove.api.ids import TenantId
from alcove.apiserver.audit_files import AuditFiles, AuditLimits
from alcove.apiserver.identity import Identity

ENTRIES_PER_ENCODING = 64
"""Encoded together on the event loop, in about 0.2 ms. A thread would take that time from the loop too
(GIL)."""
READS = frozenset({"get", "list", "watch"})
HAND_OVER_SECONDS = 0.25
HAND_OVER_BYTES = 1 << 20
FIELD_LENGTH_MAX = 512
"""Characters of a field that a client chose: a longer path, user agent, user name, group or name is cut."""
LIST_LENGTH_MAX = 32
"""Groups, extra fields and annotations of one event; further ones are left out."""
TENANT_SHARE_OF_BUFFER = 4


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
    """The log in a directory; use it only from the event loop that created it."""

    def __init__(self, directory: Path, limits: AuditLimits | None = None, *, reads: bool = True) -> None:
        """If `reads` is False, requests with a read verb are recorded only if they failed."""
        self._reads = reads
        self._loop: AbstractEventLoop = asyncio.get_running_loop()
        self._limits = limits or AuditLimits()
        self._entries: list[AuditEntry] = []
        self._encoded: dict[TenantId, bytearray] = {}
        self._encoded_bytes = 0
        self._handed: dict[TenantId, int] = {}
        """Bytes of each tenant that were given to the writer."""
        self._timer: TimerHandle | None = None
        self._writer = AuditFiles(directory, self._limits)
        self.recorded = 0
        self.dropped = 0
        """Entries that were dropped because the buffer of their tenant was full."""

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
        for entry in entries:
            tenant = entry.caller.tenant
            lines = self._encoded.get(tenant)
            if lines is None:
                if self._is_full(tenant):
                    self.dropped += 1
                    continue
                lines = self._encoded[tenant] = bytearray()
            before = len(lines)
            _encoder.encode_into(_event(entry), lines, -1)
            lines += b"\n"
            self._encoded_bytes += len(lines) - before
        if self._encoded_bytes >= HAND_OVER_BYTES:
            self._flush()

    def _is_full(self, tenant: TenantId) -> bool:
        """Whether so much waits for the writer that the tenant's next entries are dropped."""
        total_max, written = self._limits.buffer_bytes_max, self._writer.written
        own = self._handed.get(tenant, 0) - written.get(tenant, 0)
        if own > total_max // TENANT_SHARE_OF_BUFFER:
            return True
        return own > 0 and sum(self._handed.values()) - sum(list(written.values())) > total_max

    def _flush(self) -> None:
        self._timer = None
        if self._entries:
            self._encode()
        if self._encoded:
            batch, self._encoded, self._encoded_bytes = self._encoded, {}, 0
            for tenant, lines in batch.items():
                self._handed[tenant] = self._handed.get(tenant, 0) + len(lines)
            self._writer.lines.put(batch)


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
        audit_id=_cut(entry.audit_id),
        stage=entry.stage,
        # A query string may contain a command to execute, or a token.
        request_uri=_cut(entry.path.partition("?")[0]),
        verb=_cut(entry.verb),
        tenant=_cut(entry.tenant),
        user=_user(entry.caller),
        impersonated_user=_user(entry.identity) if impersonating else None,
        source_ips=(entry.source,) if entry.source else (),
        user_agent=_cut(entry.user_agent),
        object_ref=_object_ref(entry) if entry.resource else None,
        response_status=_Status(entry.code, {}, "Failure" if entry.code >= 400 else "", entry.reason),
        request_received_timestamp=_timestamp(entry.received),
        stage_timestamp=_timestamp(entry.received + entry.seconds),
        latency_seconds=round(entry.seconds, 6),
        annotations=_cut_values(entry.annotations) if entry.annotations else entry.annotations,
    )


def _user(identity: Identity) -> _User:
    extra = identity.extra
    return _User(
        _cut(identity.user),
        identity.tenant,
        _cut(identity.uid),
        _cut_all(identity.groups),
        {_cut(key): _cut_all(extra[key]) for key in list(extra)[:LIST_LENGTH_MAX]} if extra else extra,
    )


def _cut(text: str) -> str:
    return text if len(text) <= FIELD_LENGTH_MAX else text[: FIELD_LENGTH_MAX - 1] + "…"


def _cut_all(texts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple([_cut(text) for text in texts[:LIST_LENGTH_MAX]])


def _cut_values(texts: Mapping[str, str]) -> dict[str, str]:
    return {_cut(key): _cut(texts[key]) for key in list(texts)[:LIST_LENGTH_MAX]}


def _object_ref(entry: AuditEntry) -> _ObjectRef:
    return _ObjectRef(
        _cut(entry.tenant),
        _cut(entry.resource),
        _cut(entry.namespace),
        _cut(entry.name),
        _cut(entry.group),
        _cut(entry.version),
        _cut(entry.subresource),
    )


def _timestamp(moment: float) -> str:
    second, micros = divmod(round(moment * 1_000_000), 1_000_000)
    return f"{_second(second)}.{micros:06d}Z"


@lru_cache(maxsize=16)
def _second(second: int) -> str:
    return strftime("%Y-%m-%dT%H:%M:%S", gmtime(second))

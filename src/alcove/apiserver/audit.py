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
from typing import Any

import msgspec
from msgspec import Struct

from alcove.api.ids import TenantId
from alcove.apiserver.audit_files import AuditFiles, AuditLimits
from alcove.apiserver.identity import Identity

ENTRIES_PER_ENCODING = 64
"""Encoded together on the event loop, in about 0.1 ms. A thread would take that time from the loop too
(GIL)."""
READS = frozenset({"get", "list", "watch"})
HAND_OVER_SECONDS = 0.25
HAND_OVER_BYTES = 1 << 20
FIELD_LENGTH_MAX = 512
"""Characters of a field that a client chose: a longer path, user agent, user name, group or name is cut."""
LIST_LENGTH_MAX = 32
"""Groups, extra fields and annotations of one event; further ones are left out."""
TENANT_SHARE_OF_BUFFER = 4


class AuditEntry(Struct, frozen=True):
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
        users: dict[int, bytes] = {}
        for entry in entries:
            tenant = entry.caller.tenant
            lines = self._encoded.get(tenant)
            if lines is None:
                if self._is_full(tenant):
                    self.dropped += 1
                    continue
                lines = self._encoded[tenant] = bytearray()
            line = _line(entry, users)
            lines += line
            self._encoded_bytes += len(line)
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


_json = msgspec.json.Encoder().encode


def _line(entry: AuditEntry, users: dict[int, bytes]) -> bytes:
    """The event. What is equal in many events is encoded once: who calls, with which client, and for what. `users` has the
    callers of events that are encoded together, by the address of their identity: of a connection's requests it is one."""
    caller, identity = entry.caller, entry.identity
    user = users.get(id(caller))
    if user is None:
        user = users[id(caller)] = _user(caller)
    if identity is not caller and identity != caller:
        user += b',"impersonatedUser":' + _user(identity)
    received, ended = round(entry.received * 1e6), round((entry.received + entry.seconds) * 1e6)
    # The other fields of the target are parts of its path. A long one is not kept in memory.
    target = _target if len(entry.path) <= FIELD_LENGTH_MAX else _target.__wrapped__
    uri, object_ref = target(
        entry.path,
        entry.verb,
        entry.tenant,
        entry.group,
        entry.version,
        entry.resource,
        entry.subresource,
        entry.namespace,
        entry.name,
    )
    return (
        b'{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":%b,"stage":"%b",%b,"user":%b%b%b'
        b',"responseStatus":%b,"requestReceivedTimestamp":"%b.%06dZ","stageTimestamp":"%b.%06dZ","latencySeconds":%.6f%b}\n'
    ) % (
        _json(_cut(entry.audit_id)),
        entry.stage.encode(),
        uri,
        user,
        _client(entry.source, _cut(entry.user_agent)),
        object_ref,
        b'{"code":%d,"metadata":{}}' % entry.code if entry.code < 400 else _failure(entry.code, entry.reason),
        _second(received // 1_000_000),
        received % 1_000_000,
        _second(ended // 1_000_000),
        ended % 1_000_000,
        entry.seconds,
        b',"annotations":' + _json(_cut_values(entry.annotations)) if entry.annotations else b"",
    )


def _user(identity: Identity) -> bytes:
    names = (identity.tenant, _cut(identity.user), _cut(identity.uid), _cut_all(identity.groups))
    extra = identity.extra
    if not extra:
        return _plain_user(*names)
    cut = {_cut(key): _cut_all(extra[key]) for key in list(extra)[:LIST_LENGTH_MAX]}
    return _plain_user(*names)[:-1] + b',"extra":%b}' % _json(cut)


@lru_cache(maxsize=1024)
def _plain_user(tenant: TenantId, user: str, uid: str, groups: tuple[str, ...]) -> bytes:
    return _json({"username": user, "tenant": tenant, **_present(uid=uid, groups=groups)})


@lru_cache(maxsize=1024)
def _target(
    path: str,
    verb: str,
    tenant: TenantId,
    group: str,
    version: str,
    resource: str,
    subresource: str,
    namespace: str,
    name: str,
) -> tuple[bytes, bytes]:
    # A query string may contain a command to execute, or a token.
    uri = _cut(path.partition("?")[0])
    shown = b'"requestURI":%b,"verb":%b,"tenant":%b' % (_json(uri), _json(_cut(verb)), _json(_cut(tenant)))
    if not resource:
        return shown, b""
    names = _present(
        namespace=namespace, name=name, apiGroup=group, apiVersion=version, subresource=subresource
    )
    cut = {key: _cut(value) for key, value in ({"tenant": tenant, "resource": resource} | names).items()}
    return shown, b',"objectRef":' + _json(cut)


@lru_cache(maxsize=1024)
def _client(source: str, user_agent: str) -> bytes:
    addresses = b',"sourceIPs":' + _json([source]) if source else b""
    return addresses + (b',"userAgent":' + _json(user_agent) if user_agent else b"")


def _failure(code: int, reason: str) -> bytes:
    return _json({"code": code, "metadata": {}, "status": "Failure", **_present(reason=reason)})


def _present(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value}


def _cut(text: str) -> str:
    return text if len(text) <= FIELD_LENGTH_MAX else text[: FIELD_LENGTH_MAX - 1] + "…"


def _cut_all(texts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple([_cut(text) for text in texts[:LIST_LENGTH_MAX]])


def _cut_values(texts: Mapping[str, str]) -> dict[str, str]:
    return {_cut(key): _cut(texts[key]) for key in list(texts)[:LIST_LENGTH_MAX]}


@lru_cache(maxsize=16)
def _second(second: int) -> bytes:
    return strftime("%Y-%m-%dT%H:%M:%S", gmtime(second)).encode()

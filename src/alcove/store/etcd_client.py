"""Calls to an etcd cluster, with its errors translated to the store's.

One endpoint is used at a time; if it does not respond, the next one is used. Reads are repeated there, writes
never are, since they may have been committed.
"""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import grpc.aio  # type: ignore[import-untyped]
from msgspec import Struct

from alcove.store import etcd_wire as wire
from alcove.store.base import StoreError, StoreUnavailable, WriteOutcomeUnknown

CALL_SECONDS_MAX = 10.0
COMPACTION_SECONDS_MAX = 120.0

_OPTIONS = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
)


_NOT_SENT = ("failed to connect", "no leader", "not a member", "not capable")
"""Parts of error messages about requests that were not processed."""
_FULL = "defragment its members and disarm its alarm, or raise its quota (docs/production.md)"
"""What to do about etcd's NOSPACE: until then it refuses all writes, of every API server."""


class Tls(Struct, frozen=True):
    """PEM files: the cluster's CA, and the client certificate with its key."""

    authority: Path
    certificate: Path | None = None
    key: Path | None = None
    server_name: str = ""
    """In the certificates of the cluster; if not set, that of the endpoint."""

    @classmethod
    def of(cls, directory: Path, server_name: str = "") -> "Tls":
        return cls(directory / "ca.crt", directory / "client.crt", directory / "client.key", server_name)


class RevisionCompacted(StoreError):
    """etcd's error for a compacted revision; it does not name the oldest available one."""


class RevisionAhead(StoreError):
    """etcd's error for a revision that does not exist yet."""


class EtcdClient:
    def __init__(self, endpoints: Sequence[str], tls: Tls | None = None) -> None:
        """`endpoints` are `host:port`."""
        if not endpoints:
            raise ValueError("no etcd endpoint is configured")
        self._channels = [_channel(endpoint, tls) for endpoint in endpoints]
        self._closed = False
        self._use(0)

    async def range(self, request: wire.Message) -> wire.Message:
        for _ in self._channels[1:]:
            try:
                return await self._call("range", request)
            except StoreUnavailable:
                pass
        return await self._call("range", request)

    async def txn(self, request: wire.Message) -> wire.Message:
        return await self._call("txn", request)

    async def compact(self, request: wire.Message) -> wire.Message:
        return await self._call("compact", request, COMPACTION_SECONDS_MAX)

    def watch(self) -> Any:
        """A new stream of watch requests and responses."""
        return self._watch()

    async def close(self) -> None:
        self._closed = True
        await asyncio.gather(*(channel.close() for channel in self._channels))

    def translate(self, error: grpc.aio.AioRpcError) -> Exception:
        text = error.details() or error.code().name
        match error.code():
            case grpc.StatusCode.OUT_OF_RANGE if "compacted" in text:
                return RevisionCompacted(text)
            case grpc.StatusCode.OUT_OF_RANGE if "future" in text:
                return RevisionAhead(text)
            case grpc.StatusCode.INVALID_ARGUMENT:
                return ValueError(text)
            case grpc.StatusCode.RESOURCE_EXHAUSTED if "larger than max" in text:
                return ValueError(text)
            case grpc.StatusCode.RESOURCE_EXHAUSTED if "database space exceeded" in text:
                # The write that fills the quota is committed, and answered with this error.
                return WriteOutcomeUnknown(f"etcd: {text}: {_FULL}")
        self._use(self._current + 1)
        is_known = error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED or any(
            each in text for each in _NOT_SENT
        )
        return (StoreUnavailable if is_known else WriteOutcomeUnknown)(f"etcd: {text}")

    async def _call(self, method: str, request: wire.Message, seconds: float | None = None) -> wire.Message:
        if self._closed:
            raise StoreUnavailable("the store is closed")
        try:
            return await self._methods[method](request, timeout=seconds or CALL_SECONDS_MAX)
        except grpc.aio.AioRpcError as error:
            raise self.translate(error) from error
        except grpc.aio.UsageError as error:
            raise StoreUnavailable("the store is closed") from error
        except asyncio.CancelledError:
            # Closing the channel cancels its calls; that must not look like a cancellation of the caller.
            task = asyncio.current_task()
            if self._closed and task is not None and not task.cancelling():
                raise StoreUnavailable("the store is closed") from None
            raise

    def _use(self, number: int) -> None:
        self._current = number % len(self._channels)
        channel = self._channels[self._current]

        def unary(path: str, response: Any) -> Callable[..., Any]:
            call: Callable[..., Any] = channel.unary_unary(
                path, request_serializer=_serialize, response_deserializer=response.FromString
            )
            return call

        self._methods = {
            "range": unary("/etcdserverpb.KV/Range", wire.RangeResponse),
            "txn": unary("/etcdserverpb.KV/Txn", wire.TxnResponse),
            "compact": unary("/etcdserverpb.KV/Compact", wire.CompactionResponse),
        }
        self._watch = channel.stream_stream(
            "/etcdserverpb.Watch/Watch",
            request_serializer=_serialize,
            response_deserializer=wire.WatchResponse.FromString,
        )


def _serialize(message: wire.Message) -> bytes:
    packed: bytes = message.SerializeToString()
    return packed


def _channel(endpoint: str, tls: Tls | None) -> Any:
    if tls is None:
        return grpc.aio.insecure_channel(endpoint, options=_OPTIONS)
    files = (tls.authority, tls.key, tls.certificate)
    parts = [file.read_bytes() if file is not None else None for file in files]
    named = (("grpc.ssl_target_name_override", tls.server_name),) if tls.server_name else ()
    return grpc.aio.secure_channel(
        endpoint, grpc.ssl_channel_credentials(*parts), options=(*_OPTIONS, *named)
    )

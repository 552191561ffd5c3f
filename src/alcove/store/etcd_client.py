"""Calls to an etcd cluster, with its errors translated to the store's.

One endpoint is used at a time; if it does not respond, the next one is used. Reads are repeated there, writes
only if they were not sent: others may have been committed.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

from alcove.store import etcd_wire as wire
from alcove.store.base import StoreError, StoreUnavailable, WriteOutcomeUnknown
from alcove.store.grpc_channel import (
    GrpcChannel,
    GrpcError,
    GrpcStatus,
    GrpcStream,
    Tls,
)

CALL_SECONDS_MAX = 10.0
COMPACTION_SECONDS_MAX = 120.0
RANGE, TXN, COMPACT = "/etcdserverpb.KV/Range", "/etcdserverpb.KV/Txn", "/etcdserverpb.KV/Compact"
WATCH = "/etcdserverpb.Watch/Watch"

_NOT_DONE = ("no leader", "not a member", "not capable")
"""Parts of etcd's error messages about requests that were not processed."""
_FULL = "defragment its members and disarm its alarm, or raise its quota (docs/production.md)"
"""What to do about etcd's NOSPACE: until then it refuses all writes, of every API server."""


class RevisionCompacted(StoreError):
    """etcd's error for a compacted revision; it does not name the oldest available one."""


class RevisionAhead(StoreError):
    """etcd's error for a revision that does not exist yet."""


class EtcdClient:
    def __init__(self, endpoints: Sequence[str], tls: Tls | None = None) -> None:
        """`endpoints` are `host:port`."""
        if not endpoints:
            raise ValueError("no etcd endpoint is configured")
        self._channels = [GrpcChannel(endpoint, tls) for endpoint in endpoints]
        self.endpoint = 0
        """The number of the endpoint in use."""
        self._closed = False

    async def range(self, request: wire.Message) -> wire.Message:
        for _ in self._channels[1:]:
            try:
                return await self._call(RANGE, request, wire.RangeResponse)
            except StoreUnavailable:
                pass
        return await self._call(RANGE, request, wire.RangeResponse)

    async def txn(self, request: wire.Message) -> wire.Message:
        return await self._call(TXN, request, wire.TxnResponse)

    async def compact(self, request: wire.Message) -> wire.Message:
        return await self._call(COMPACT, request, wire.CompactionResponse, COMPACTION_SECONDS_MAX)

    async def watch(self, request: wire.Message) -> GrpcStream:
        """A new stream of watch responses. Raises GrpcError, of which `failed` is to be told, as of later ones."""
        return await self._channels[self.endpoint].stream(WATCH, request.SerializeToString())

    def failed(self, endpoint: int) -> None:
        """An endpoint does not work: uses the next one, unless that was done already."""
        if endpoint == self.endpoint:
            self.endpoint = (endpoint + 1) % len(self._channels)

    async def close(self) -> None:
        self._closed = True
        await asyncio.gather(*(channel.close() for channel in self._channels))

    async def _call(
        self, path: str, request: wire.Message, response: Any, seconds: float | None = None
    ) -> wire.Message:
        message = request.SerializeToString()
        for attempts_left in range(len(self._channels) - 1, -1, -1):
            if self._closed:
                break
            endpoint = self.endpoint
            try:
                channel = self._channels[endpoint]
                return response.FromString(await channel.call(path, message, seconds or CALL_SECONDS_MAX))
            except GrpcError as error:
                if self._closed:
                    break
                translated = _translated(error)
                if isinstance(translated, StoreUnavailable) and not _is_full(error):
                    self.failed(endpoint)
                if error.is_processed or not attempts_left:
                    raise translated from error
        raise StoreUnavailable("the store is closed")


def _is_full(error: GrpcError) -> bool:
    return error.code == GrpcStatus.RESOURCE_EXHAUSTED and "database space exceeded" in str(error)


def _translated(error: GrpcError) -> Exception:
    text = str(error)
    match error.code:
        case GrpcStatus.OUT_OF_RANGE if "compacted" in text:
            return RevisionCompacted(text)
        case GrpcStatus.OUT_OF_RANGE if "future" in text:
            return RevisionAhead(text)
        case GrpcStatus.INVALID_ARGUMENT:
            return ValueError(text)
        case GrpcStatus.RESOURCE_EXHAUSTED if "larger than max" in text:
            return ValueError(text)
        case GrpcStatus.RESOURCE_EXHAUSTED if _is_full(error):
            # The write that fills the quota is committed, and answered with this error.
            return WriteOutcomeUnknown(f"etcd: {text}: {_FULL}")
    is_done = error.is_processed and error.code != GrpcStatus.RESOURCE_EXHAUSTED
    if is_done and not any(each in text for each in _NOT_DONE):
        return WriteOutcomeUnknown(f"etcd: {text}")
    return StoreUnavailable(f"etcd: {text}")

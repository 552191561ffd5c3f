"""Writes a pod's status to its API server: one write at a time, always the latest status, retried until it
succeeds."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial

from alcove.agent.podkey import PodKey
from alcove.api import objects
from alcove.api.errors import ApiError, BadRequest, Invalid, NotFound, TooLarge
from alcove.api.ids import TenantId
from alcove.api.objects import Object
from alcove.client.client import Client, Patch
from alcove.client.errors import ClientError
from alcove.client.resources import PODS
from alcove.component import request_ids
from alcove.component.tasks import spawn

log = logging.getLogger(__name__)

RETRY_SECONDS = 0.5
RETRY_SECONDS_MAX = 15.0

_ESSENTIAL = ("phase", "reason", "startTime", "podIP", "podIPs", "hostIP", "hostIPs")

ClientOf = Callable[[TenantId], Client]


class StatusWriter:
    """The writer of one pod. How many write at the same time is bounded by the client's connections, which tenants
    share fairly."""

    def __init__(self, key: PodKey, client_of: ClientOf) -> None:
        self._key = key
        self._client_of = client_of
        self._pending: Object | None = None
        self._task: asyncio.Task[None] | None = None
        self._stopped = asyncio.Event()
        self.revision = 0
        """The pod's resourceVersion after the last write."""
        self.is_deleted = False
        """The API server no longer has the pod: nothing more is written."""

    def write(self, status: Object) -> None:
        """Writes the status in the background, after the write before it is done."""
        self._pending = status
        if self._task is None or self._task.done():
            self._task = spawn(f"status of {self._key}", self._write_all())

    def set_deleted(self) -> None:
        """Stops retries because the pod was deleted. A node may not read pods that are not bound to it, so
        the watch has to report the deletion."""
        self.is_deleted = True
        self._stopped.set()

    async def flush(self) -> None:
        """Waits until everything is written, or the pod was deleted."""
        if self._task is not None:
            await asyncio.wait((self._task,))

    @property
    def is_idle(self) -> bool:
        """Whether everything is written."""
        return self._task is None or self._task.done()

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def delete(self) -> None:
        """Deletes the pod's object, with a grace period of 0."""
        with request_ids.scope(request_ids.new()):
            await self._retry(self._delete)

    async def _write_all(self) -> None:
        request_ids.current.set(request_ids.new())
        while self._pending is not None and not self.is_deleted:
            status, self._pending = self._pending, None
            await self._retry(partial(self._write, status))

    async def _write(self, status: Object) -> None:
        try:
            await self._patch(status)
        except TooLarge:
            # The tenant has filled the object, which may not become larger.
            await self._patch({name: status[name] for name in _ESSENTIAL if name in status})

    async def _patch(self, status: Object) -> None:
        key = self._key
        pod = await self._client_of(key.tenant).patch(
            key.tenant,
            PODS,
            key.name,
            {"metadata": {"uid": key.uid}, "status": status},
            namespace=key.namespace,
            kind=Patch.STRATEGIC,
            subresource="status",
        )
        self.revision = int(objects.get(pod, "metadata", "resourceVersion", default=0))

    async def _delete(self) -> None:
        key = self._key
        await self._client_of(key.tenant).delete(
            key.tenant, PODS, key.name, namespace=key.namespace, uid=key.uid, grace_seconds=0
        )

    async def _retry(self, request: Callable[[], Awaitable[None]]) -> None:
        """Repeats the request until it succeeds, a newer status is pending, or the pod was deleted."""
        waits = RETRY_SECONDS
        while not self.is_deleted:
            try:
                await request()
                return
            except NotFound:
                self.is_deleted = True
                return
            except (BadRequest, Invalid, TooLarge) as error:
                # A retry would be rejected as well, and the pod's teardown must not wait for it.
                log.error(
                    "pod status update rejected by the API server",
                    extra={"pod": str(self._key), "error": str(error)},
                )
                return
            except (ApiError, ClientError) as error:
                log.info(
                    "failed to update pod status; retrying",
                    extra={"pod": str(self._key), "error": str(error)},
                )
            try:
                async with asyncio.timeout(waits):
                    await self._stopped.wait()
            except TimeoutError:
                waits = min(waits * 2, RETRY_SECONDS_MAX)
            if self._pending is not None:
                return

"""Tells a pod's status to its API server: the latest counts, one write at a time, again until it is heard."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial

from alcove.agent.podkey import PodKey
from alcove.api import objects
from alcove.api.errors import ApiError, BadRequest, Invalid, NotFound
from alcove.api.objects import Object
from alcove.client.client import Client, Patch
from alcove.client.errors import ClientError
from alcove.client.keys import PlaneId
from alcove.client.resources import PODS
from alcove.component import request_ids
from alcove.component.tasks import spawn

log = logging.getLogger(__name__)

RETRY_SECONDS = 0.5
RETRY_SECONDS_MAX = 15.0

ClientOf = Callable[[PlaneId], Client]


class StatusWriter:
    """Of one pod. `limit` bounds how many pods of the node write at the same time."""

    def __init__(self, key: PodKey, client_of: ClientOf, limit: asyncio.Semaphore) -> None:
        self._key = key
        self._client_of = client_of
        self._limit = limit
        self._pending: Object | None = None
        self._task: asyncio.Task[None] | None = None
        self._hurry = asyncio.Event()
        self.revision = 0
        """Of the pod, as the last write left it."""
        self.is_gone = False
        """The API server no longer has the pod: nobody listens."""

    def write(self, status: Object) -> None:
        """At once, or when the write before is through."""
        self._pending = status
        if self._task is None or self._task.done():
            self._task = spawn(f"status of {self._key}", self._write_all())

    def set_gone(self) -> None:
        """A node may not even ask for pods that are not its own: that it is gone, others have to say."""
        self.is_gone = True
        self._hurry.set()

    async def flush(self) -> None:
        """Waits until everything is written, or nobody listens any more."""
        if self._task is not None:
            await asyncio.wait((self._task,))

    @property
    def is_idle(self) -> bool:
        """Everything is written."""
        return self._task is None or self._task.done()

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def delete(self) -> None:
        """The pod's object, now that nothing of it is left here."""
        with request_ids.scope(request_ids.new()):
            await self._insist(self._delete)

    async def _write_all(self) -> None:
        request_ids.current.set(request_ids.new())
        while self._pending is not None and not self.is_gone:
            status, self._pending = self._pending, None
            await self._insist(partial(self._write, status))

    async def _write(self, status: Object) -> None:
        key = self._key
        answer = await self._client_of(key.plane).patch(
            key.tenant,
            PODS,
            key.name,
            {"metadata": {"uid": key.uid}, "status": status},
            namespace=key.namespace,
            kind=Patch.STRATEGIC,
            subresource="status",
        )
        self.revision = int(objects.get(answer, "metadata", "resourceVersion", default=0))

    async def _delete(self) -> None:
        key = self._key
        await self._client_of(key.plane).delete(
            key.tenant, PODS, key.name, namespace=key.namespace, uid=key.uid, grace_seconds=0
        )

    async def _insist(self, request: Callable[[], Awaitable[None]]) -> None:
        """Until it is done, or there is something newer to write, or nobody to write it to."""
        waits = RETRY_SECONDS
        while not self.is_gone:
            try:
                async with self._limit:
                    await request()
                return
            except NotFound:
                self.is_gone = True
                return
            except (BadRequest, Invalid) as error:
                # It would never be taken; a pod must not stay for that.
                log.error("pod status refused", extra={"pod": str(self._key), "error": str(error)})
                return
            except (ApiError, ClientError) as error:
                log.info(
                    "failed to update pod status; retrying",
                    extra={"pod": str(self._key), "error": str(error)},
                )
            try:
                async with asyncio.timeout(waits):
                    await self._hurry.wait()
            except TimeoutError:
                waits = min(waits * 2, RETRY_SECONDS_MAX)
            if self._pending is not None:
                return

"""Counts the bodies and responses that are in memory for a tenant.

A short body is received before its request is admitted, and is counted with its connection
(`http/connections.py`). A longer one is received after the request is authorized and its bytes are reserved.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from alcove.api.errors import Timeout, TooManyRequests
from alcove.api.ids import TenantId
from alcove.apiserver.buffers import TenantBuffers
from alcove.apiserver.call import ApiCall
from alcove.apiserver.responses import api_error, error_response
from alcove.http.errors import HttpError
from alcove.http.limits import LIMITS
from alcove.http.messages import HttpResponse
from alcove.http.upload import RequestUpload

_READS = frozenset({"get", "list", "watch"})

BODY_SECONDS_MAX = 60.0
"""For receiving one request's body; then the request is answered with 504."""
SENDING_SECONDS_MAX = 1.0
"""A large response holds its seats while it is sent, but not longer than this: the client may read slowly."""


class RequestBuffering:
    def __init__(self, buffers: TenantBuffers) -> None:
        self._buffers = buffers

    def check(self, call: ApiCall) -> None:
        """Raises TooManyRequests if too much is buffered for the caller's tenant already."""
        self._buffers.check(call.identity.tenant)

    def has_room(self, tenant: TenantId) -> bool:
        """Whether `check` would raise nothing for a caller of the tenant, without shedding."""
        return self._buffers.has_room(tenant)

    def reserve(self, call: ApiCall, upload: RequestUpload) -> None:
        """Reserves the bytes of a body before it is received. Raises TooManyRequests."""
        size = LIMITS.body_bytes_max if upload.length is None else upload.length
        self._buffers.reserve(call.identity.tenant, size)
        call.reserved_bytes = size

    async def receive(self, call: ApiCall, upload: RequestUpload) -> None:
        """Raises Timeout and TooLarge."""
        try:
            async with asyncio.timeout(BODY_SECONDS_MAX):
                call.request.body = await upload.read(LIMITS.body_bytes_max)
        except TimeoutError as error:
            raise Timeout(
                f"the body of the request was not received within {BODY_SECONDS_MAX:g} s"
            ) from error
        except HttpError as error:
            raise api_error(error) from error

    def release(self, call: ApiCall) -> None:
        """Releases a body and its bytes. Idempotent."""
        size, call.reserved_bytes = call.reserved_bytes, 0
        if size:
            call.request.body = b""
            self._buffers.release(call.identity.tenant, size)

    def send(
        self, call: ApiCall, response: HttpResponse, size: int, release_seats: Callable[[], None]
    ) -> HttpResponse:
        """Counts a large response until it is sent. Its seats are held for a while, because sending it is part
        of the work.

        Returns the response, or an error if too much is buffered for the tenant. What a write responds is sent in
        any case, so that the client knows that it succeeded.
        """
        tenant, buffers = call.identity.tenant, self._buffers
        if call.verb in _READS:
            try:
                buffers.reserve(tenant, size)
            except TooManyRequests as error:
                release_seats()
                return error_response(error)
        else:
            buffers.hold(tenant, size)
        timer = asyncio.get_running_loop().call_later(SENDING_SECONDS_MAX, release_seats)

        def done() -> None:
            timer.cancel()
            release_seats()
            buffers.release(tenant, size)

        response.done = done
        return response

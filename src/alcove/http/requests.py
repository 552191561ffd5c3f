"""Assembles the requests of one connection from the parser's events.

A request is created from its head. A short body is collected first. If the body is longer, if the client
waits for 100 Continue, or if the owner wants it, the request is passed on as soon as that is known, with an
upload through which its handler receives the body.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Protocol

from alcove.http.connections import ConnectionSlot
from alcove.http.errors import BodyTooLarge
from alcove.http.limits import HttpLimits
from alcove.http.messages import HttpHead, HttpRequest
from alcove.http.parsing import HttpParser
from alcove.http.upload import RequestUpload
from alcove.http.writing import CONTINUE


class RequestOwner(Protocol):
    """The connection that responds to the requests."""

    transport: asyncio.Transport
    peer: object
    address: str
    slot: ConnectionSlot

    def received(self, request: HttpRequest) -> None:
        """Called with each request; if it has an upload, its body is not received yet."""

    def update_reading(self) -> None:
        """Called when the upload's `is_paused` has changed."""

    def count_held_bytes(self) -> None:
        """Called when a handler begins to receive its body, which it accounts for itself from then on."""

    def uploaded(self) -> None:
        """Called when the upload of the last received request is complete."""

    def streams_body(self, request: HttpRequest) -> bool:
        """Whether the request is handled before its body is received, however short that is, and without a
        limit of its size."""


class RequestReceiver:
    __slots__ = (
        "_body",
        "_body_bytes_max",
        "_early_body_bytes_max",
        "_owner",
        "_request",
        "owes_continue",
        "parser",
        "upload",
    )

    def __init__(self, owner: RequestOwner, limits: HttpLimits) -> None:
        self._owner = owner
        self._body_bytes_max = limits.body_bytes_max
        self._early_body_bytes_max = limits.early_body_bytes_max
        self._request: HttpRequest | None = None
        self._body = bytearray()
        """Not a list of its parts: each part takes fifty bytes, and may have one."""
        self.owes_continue = False
        """Whether the client waits for 100 Continue before it sends the upload."""
        self.upload: RequestUpload | None = None
        """The body of the current request, while it is received."""
        self.parser = HttpParser(self, limits, requests=True)

    def end(self) -> None:
        """Release the parser and the owner; nothing more is received."""
        self.upload = self._request = None
        self.owes_continue = False
        self.parser.close()
        del self.parser, self._owner

    @property
    def is_endless(self) -> bool:
        """Whether the upload may be longer than a body that is kept in memory."""
        upload = self.upload
        return upload is not None and (upload.length is None or upload.length > self._body_bytes_max)

    @property
    def is_idle(self) -> bool:
        """Whether nothing of a request was received that is not passed on."""
        return self.upload is None and not self._body and self.parser.is_idle

    @property
    def held_bytes(self) -> int:
        """Bytes of a request that are not passed on yet."""
        upload = self.upload
        return self.parser.partial_bytes + len(self._body) + (upload.held_bytes if upload is not None else 0)

    # Called by the parser

    def head_received(self, head: HttpHead) -> None:
        owner = self._owner
        path, _, query = head.target.partition(b"?")
        request = self._request = HttpRequest(
            head.method.decode("ascii"),
            path.decode("latin-1"),
            query.decode("latin-1"),
            head.headers,
            b"",
            head.fields,
            owner.peer,
            owner.address,
            head.keep_alive,
            owner.slot,
        )
        if not head.length and not head.is_chunked:
            request.known_head = head.known
            return
        length = head.length or 0
        if owner.streams_body(request):
            self._hand_over(head.length)
        elif length > self._body_bytes_max:
            raise BodyTooLarge(f"limit is {self._body_bytes_max} bytes")
        elif length > self._early_body_bytes_max or "expect" in head.headers:
            self._hand_over(head.length)

    def _hand_over(self, length: int | None) -> None:
        """Pass the request on before its body is complete."""
        request, self._request = self._request, None
        assert request is not None
        self.owes_continue = request.headers.get("expect", "").lower() == "100-continue"
        upload = RequestUpload(length, self._owner.update_reading, partial(self._followed, self._owner))
        self.upload = request.upload = upload
        if self._body:
            upload.received(bytes(self._body))
            self._body = bytearray()
        self._owner.received(request)

    def _followed(self, owner: RequestOwner) -> None:
        """Send 100 Continue if the client waits for it. The request's turn has come: no other response is
        being written."""
        if self.owes_continue:
            self.owes_continue = False
            owner.transport.write(CONTINUE)
        owner.count_held_bytes()

    def body_received(self, data: bytes) -> None:
        if self.upload is None:
            self._body += data
            if len(self._body) > self._early_body_bytes_max:
                self._hand_over(None)  # Only a chunked body does not tell its size before.
        else:
            self.upload.received(data)

    def message_ended(self) -> None:
        upload, self.upload = self.upload, None
        if upload is not None:
            self.owes_continue = False
            upload.finished()
            self._owner.uploaded()
            return
        request, self._request = self._request, None
        assert request is not None
        if self._body:
            request.body = bytes(self._body)
            self._body = bytearray()
        self._owner.received(request)

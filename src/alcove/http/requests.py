"""Assembles the requests of one connection from the parser's events.

A request is created from its head. Its body is then collected up to a limit, or passed through an upload if
the owner handles the request before its body is received.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

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

    def received(self, request: HttpRequest) -> None:
        """Called with each request; if it has an upload, its body is not received yet."""

    def uploaded(self) -> None:
        """Called when the upload of the last received request is complete."""

    def streams_body(self, request: HttpRequest) -> bool:
        """Whether the request is handled now, before its body is received."""

    @property
    def is_answering(self) -> bool: ...


class RequestReceiver:
    __slots__ = (
        "_body",
        "_body_bytes",
        "_body_bytes_max",
        "_owner",
        "_request",
        "owes_continue",
        "parser",
        "upload",
    )

    def __init__(self, owner: RequestOwner, limits: HttpLimits) -> None:
        self._owner = owner
        self._body_bytes_max = limits.body_bytes_max
        self._request: HttpRequest | None = None
        self._body: list[bytes] = []
        self._body_bytes = 0
        self.owes_continue = False
        self.upload: RequestUpload | None = None
        """The body of the current request, while it is received."""
        self.parser = HttpParser(self, limits, requests=True)

    def end(self) -> None:
        """Release the parser and the owner; nothing more is received."""
        self.upload = None
        self.parser.close()
        del self.parser, self._owner

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
        )
        if not head.length and not head.is_chunked:
            if "expect" in head.headers:
                self._expect(request)
        elif owner.streams_body(request):
            self._expect(request)
            self._request = None
            self.upload = request.upload = RequestUpload(owner.transport, head.length)
            owner.received(request)
        else:
            if (head.length or 0) > self._body_bytes_max:
                raise self._too_large()
            self._expect(request)

    def _expect(self, request: HttpRequest) -> None:
        if request.headers.get("expect", "").lower() == "100-continue":
            self.owes_continue = True
            if not self._owner.is_answering:
                self.send_continue()

    def send_continue(self) -> None:
        """Send 100 Continue if the client waits for it. Must be called only if no response is being written,
        because it would become a part of that response."""
        if self.owes_continue:
            self.owes_continue = False
            self._owner.transport.write(CONTINUE)

    def _too_large(self) -> BodyTooLarge:
        self._body.clear()
        return BodyTooLarge(f"limit is {self._body_bytes_max} bytes")

    def body_received(self, data: bytes) -> None:
        if self.upload is not None:
            self.upload.received(data)
            return
        self._body_bytes += len(data)
        if self._body_bytes > self._body_bytes_max:
            raise self._too_large()
        self._body.append(data)

    def message_ended(self) -> None:
        self.owes_continue = False
        upload, self.upload = self.upload, None
        if upload is not None:
            upload.finished()
            self._owner.uploaded()
            return
        request, self._request = self._request, None
        assert request is not None
        if self._body:
            request.body = b"".join(self._body)
            self._body, self._body_bytes = [], 0
        self._owner.received(request)

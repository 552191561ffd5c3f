"""What comes from a client: requests, put together of the parts that httptools finds.

Bounds are kept while they come: what is too large is refused as soon as that is known. A body that is handed on is
not kept at all (`http/upload.py`): its request is whole when its head is.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

import httptools

from alcove.api.errors import ApiError, BadRequest
from alcove.apiserver.http.limits import BODY_BYTES_MAX, HEAD_BYTES_MAX, head_too_large, too_large
from alcove.apiserver.http.messages import Request
from alcove.apiserver.http.upload import Upload
from alcove.apiserver.identity import Identity

_REPEATED = ("impersonate-", "x-stream-protocol-version")
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class Owner(Protocol):
    """Who answers."""

    transport: asyncio.Transport
    certificate: Identity | ApiError | None
    address: str

    def received(self, request: Request) -> None:
        """A request; its body is still to come if it has an upload."""

    def uploaded(self) -> None:
        """The upload of the request that was received last is whole."""

    def hands_on(self, path: str) -> bool:
        """Whether a request for this path can be answered now, before its body has come."""


class Receiving:
    __slots__ = (
        "_body",
        "_body_bytes",
        "_head_bytes",
        "_headers",
        "_impersonation",
        "_owner",
        "_parser",
        "_reads_body",
        "_unread_bytes",
        "_url",
        "upload",
    )

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self._parser = httptools.HttpRequestParser(self)
        self.upload: Upload | None = None
        """The body of the request that is being answered, while it comes."""
        self.on_message_begin()

    def feed(self, data: bytes) -> bytes | None:
        """Takes what came. The last request asked for another protocol: returns what followed it. Raises ApiError:
        nothing that follows can be understood."""
        if not self._reads_body:
            self._unread_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._parser = httptools.HttpRequestParser(self)
            return data[upgrade.args[0] :]
        except httptools.HttpParserError as error:
            cause = error.__context__
            if isinstance(cause, ApiError):
                raise cause from error
            raise BadRequest(f"malformed HTTP request: {error}") from error
        if not self._reads_body and self._unread_bytes > HEAD_BYTES_MAX:
            raise head_too_large()
        return None

    def end(self) -> None:
        """Nothing more comes. The parser holds this object as it holds the parser, and both the owner: left so,
        all would wait for somebody to look for such circles."""
        self.upload = None
        del self._parser, self._owner

    # The parser's side

    def on_message_begin(self) -> None:
        self._url = b""
        self._headers: dict[str, str] = {}
        self._impersonation: list[tuple[str, str]] = []
        self._body: list[bytes] = []
        self._body_bytes = 0
        self._head_bytes = 0
        self._unread_bytes = 0
        """Received since the last whole request, while its head is not complete."""
        self._reads_body = False

    def on_url(self, url: bytes) -> None:
        self._url += url
        self._head_bytes += len(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._head_bytes += len(name) + len(value)
        header = name.decode("latin-1").lower()
        if header.startswith(_REPEATED):
            self._repeated(header, value)
        else:
            self._headers[header] = value.decode("latin-1")

    def _repeated(self, header: str, value: bytes) -> None:
        """Headers of which not the last counts but each."""
        text = value.decode("latin-1")
        if header.startswith("impersonate-"):
            self._headers[header] = text
            self._impersonation.append((header, value.decode("utf-8", "replace")))
        else:
            known = self._headers.get(header)
            self._headers[header] = f"{known}, {text}" if known else text

    def on_headers_complete(self) -> None:
        if self._head_bytes > HEAD_BYTES_MAX:
            raise head_too_large()
        self._reads_body = True
        length = self._headers.get("content-length")
        if b"/proxy" in self._url and self._begin_upload(length):
            return
        if length is not None and int(length) > BODY_BYTES_MAX:
            raise too_large()
        if self._headers.get("expect", "").lower() == "100-continue":
            self._owner.transport.write(_CONTINUE)

    def _begin_upload(self, length: str | None) -> bool:
        """Whether the request is handled now, and its body as it comes."""
        is_chunked = "transfer-encoding" in self._headers
        has_body = is_chunked or length not in (None, "0")
        if not has_body or "upgrade" in self._headers:
            return False
        request, owner = self._request(), self._owner
        if not owner.hands_on(request.path):
            return False
        if self._headers.get("expect", "").lower() == "100-continue":
            owner.transport.write(_CONTINUE)
        self.upload = request.upload = Upload(owner.transport, None if is_chunked else int(length or 0))
        owner.received(request)
        return True

    def on_body(self, body: bytes) -> None:
        if self.upload is not None:
            self.upload.received(body)
            return
        self._body_bytes += len(body)
        if self._body_bytes > BODY_BYTES_MAX:
            raise too_large()
        self._body.append(body)

    def on_message_complete(self) -> None:
        self._reads_body = False
        self._unread_bytes = 0
        upload, self.upload = self.upload, None
        if upload is None:
            self._owner.received(self._request())
        else:
            upload.finished()
            self._owner.uploaded()

    def _request(self) -> Request:
        path, _, query = self._url.partition(b"?")
        owner, parser = self._owner, self._parser
        return Request(
            parser.get_method().decode("ascii"),
            path.decode("latin-1"),
            query.decode("latin-1"),
            self._headers,
            b"".join(self._body),
            owner.certificate,
            owner.address,
            parser.should_keep_alive(),
            self._impersonation,
        )

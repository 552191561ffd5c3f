"""Requests put together of what comes, in whatever pieces; bounds; and what is left when a connection ends."""

import asyncio
import gc
import weakref

import pytest

from alcove.api.errors import ApiError, BadRequest, TooLarge
from alcove.apiserver.http.limits import BODY_BYTES_MAX, HEAD_BYTES_MAX, HeadTooLarge
from alcove.apiserver.http.messages import Request
from alcove.apiserver.http.receiving import Receiving
from alcove.apiserver.identity import Identity

GET = b"GET /api/v1/pods?limit=5 HTTP/1.1\r\nHost: a\r\nX-Odd: one\r\nX-Odd: two\r\n\r\n"


class Wire(asyncio.Transport):
    def __init__(self) -> None:
        self.written = b""

    def write(self, data: object) -> None:
        assert isinstance(data, bytes)
        self.written += data

    def is_closing(self) -> bool:
        return False


class Owner:
    """Keeps what it is given; hands on what is for `/proxy/`."""

    certificate: Identity | ApiError | None = None
    address = "10.0.0.1"

    def __init__(self) -> None:
        self.wire = Wire()
        self.transport: asyncio.Transport = self.wire
        self.requests: list[Request] = []
        self.uploads = 0

    def received(self, request: Request) -> None:
        self.requests.append(request)

    def uploaded(self) -> None:
        self.uploads += 1

    def hands_on(self, path: str) -> bool:
        return path.endswith("/proxy/")


def post(path: str, body: bytes, *headers: str) -> bytes:
    head = (f"POST {path} HTTP/1.1", "Host: a", f"Content-Length: {len(body)}", *headers)
    return "\r\n".join(head).encode() + b"\r\n\r\n" + body


@pytest.mark.parametrize("piece", [1, 7, 1000])
def test_requests_come_in_pieces(piece: int) -> None:
    owner = Owner()
    receiving = Receiving(owner)
    sent = GET + post("/api/v1/pods", b'{"a":1}') + GET
    for start in range(0, len(sent), piece):
        assert receiving.feed(sent[start : start + piece]) is None
    first, second, third = owner.requests
    assert (first.method, first.path, first.raw_query) == ("GET", "/api/v1/pods", "limit=5")
    assert first.headers == {"host": "a", "x-odd": "two"} and first.keep_alive
    assert (second.method, second.body) == ("POST", b'{"a":1}')
    assert third.body == b"" and third.address == "10.0.0.1"


@pytest.mark.parametrize(
    ("sent", "error"),
    [
        (b"GET / HTTP/1.1\r\nA: " + b"a" * HEAD_BYTES_MAX + b"\r\n\r\n", HeadTooLarge),
        (b"GET /" + b"a" * (HEAD_BYTES_MAX + 16_000), HeadTooLarge),
        (b"POST / HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % (BODY_BYTES_MAX + 1), TooLarge),
        (b"nonsense\r\n\r\n", BadRequest),
    ],
)
def test_what_is_too_large_or_cannot_be_read_is_refused(sent: bytes, error: type[ApiError]) -> None:
    receiving = Receiving(Owner())
    with pytest.raises(error):
        for start in range(0, len(sent), 16_000):
            receiving.feed(sent[start : start + 16_000])


def test_chunks_are_counted_as_they_come() -> None:
    receiving = Receiving(Owner())
    receiving.feed(b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n")
    chunk = b"%x\r\n%b\r\n" % (1 << 20, b"a" * (1 << 20))
    with pytest.raises(TooLarge):
        for _ in range(4):
            receiving.feed(chunk)


def test_who_asks_first_is_told_to_go_on() -> None:
    owner = Owner()
    Receiving(owner).feed(post("/", b"", "Expect: 100-continue"))
    assert owner.wire.written == b"HTTP/1.1 100 Continue\r\n\r\n"


def test_a_body_that_is_handed_on_is_received_before_it_is_whole() -> None:
    owner = Owner()
    receiving = Receiving(owner)
    sent = post("/api/v1/nodes/n/proxy/", b"x" * 100)
    receiving.feed(sent[:-50])
    [request] = owner.requests
    upload = request.upload
    assert upload is not None and upload is receiving.upload
    assert (upload.length, owner.uploads) == (100, 0)
    receiving.feed(sent[-50:])
    assert upload.is_whole and receiving.upload is None and owner.uploads == 1


def test_what_follows_a_change_of_protocol_is_given_back() -> None:
    owner = Owner()
    receiving = Receiving(owner)
    sent = b"GET / HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n"
    assert receiving.feed(sent + b"\x80\x03") == b"\x80\x03"
    assert receiving.feed(GET) is None and len(owner.requests) == 2


def test_repeated_headers_that_count_each() -> None:
    owner = Owner()
    groups = "Impersonate-Group: a\r\nImpersonate-Group: b"
    Receiving(owner).feed(
        post("/", b"", groups, "X-Stream-Protocol-Version: v4", "X-Stream-Protocol-Version: v5")
    )
    [request] = owner.requests
    assert request.impersonation == [("impersonate-group", "a"), ("impersonate-group", "b")]
    assert request.headers["x-stream-protocol-version"] == "v4, v5"


def test_an_end_leaves_no_circle() -> None:
    owner = Owner()
    receiving = Receiving(owner)
    receiving.feed(GET)
    gc.disable()
    try:
        there = weakref.ref(owner)
        receiving.end()
        del owner
        assert there() is None
    finally:
        gc.enable()

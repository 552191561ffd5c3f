"""Requests are assembled from any pieces, within limits; and the state after a connection ends."""

import asyncio
import gc
import tracemalloc
import weakref

import pytest

from alcove.http.connections import ConnectionSlot, ConnectionTable
from alcove.http.errors import BodyTooLarge, HeadTooLarge, HttpError, MalformedMessage
from alcove.http.limits import LIMITS
from alcove.http.messages import HttpRequest
from alcove.http.requests import RequestReceiver

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
    """Records the requests; handles those for `/proxy/` before their bodies are complete."""

    peer: object = None
    address = "10.0.0.1"

    def __init__(self) -> None:
        self.wire = Wire()
        self.transport: asyncio.Transport = self.wire
        self.slot = ConnectionSlot(ConnectionTable(LIMITS), self.address, 0.0)
        self.requests: list[HttpRequest] = []
        self.uploads = 0

    def received(self, request: HttpRequest) -> None:
        self.requests.append(request)

    def uploaded(self) -> None:
        self.uploads += 1

    def update_reading(self) -> None:
        pass

    def count_held_bytes(self) -> None:
        pass

    def streams_body(self, request: HttpRequest) -> bool:
        return request.path.endswith("/proxy/")


def receiver(owner: Owner) -> RequestReceiver:
    return RequestReceiver(owner, LIMITS)


def post(path: str, body: bytes, *headers: str) -> bytes:
    head = (f"POST {path} HTTP/1.1", "Host: a", f"Content-Length: {len(body)}", *headers)
    return "\r\n".join(head).encode() + b"\r\n\r\n" + body


@pytest.mark.parametrize("piece", [1, 7, 1000])
def test_requests_come_in_pieces(piece: int) -> None:
    owner = Owner()
    receiving = receiver(owner)
    sent = GET + post("/api/v1/pods", b'{"a":1}') + GET
    for start in range(0, len(sent), piece):
        assert receiving.parser.feed(sent[start : start + piece]) is None
    first, second, third = owner.requests
    assert (first.method, first.path, first.raw_query) == ("GET", "/api/v1/pods", "limit=5")
    assert first.headers == {"host": "a", "x-odd": "one, two"} and first.keep_alive
    assert (second.method, second.body) == ("POST", b'{"a":1}')
    assert third.body == b"" and third.address == "10.0.0.1"


@pytest.mark.parametrize(
    ("sent", "error"),
    [
        (b"GET / HTTP/1.1\r\nA: " + b"a" * LIMITS.head_bytes_max + b"\r\n\r\n", HeadTooLarge),
        (b"GET /" + b"a" * (LIMITS.head_bytes_max + 16_000), HeadTooLarge),
        (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % (3 * (1 << 20) + 1), BodyTooLarge),
        (b"nonsense\r\n\r\n", MalformedMessage),
    ],
)
def test_oversized_and_malformed_requests_are_rejected(sent: bytes, error: type[HttpError]) -> None:
    receiving = receiver(Owner())
    with pytest.raises(error):
        for start in range(0, len(sent), 16_000):
            receiving.parser.feed(sent[start : start + 16_000])


async def test_chunks_are_counted_as_they_come() -> None:
    owner = Owner()
    receiving = receiver(owner)
    receiving.parser.feed(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
    chunk = b"%x\r\n%b\r\n" % (1 << 20, b"a" * (1 << 20))
    receiving.parser.feed(chunk)
    [request] = owner.requests
    assert request.upload is not None
    body = asyncio.ensure_future(request.upload.read(LIMITS.body_bytes_max))
    await asyncio.sleep(0)
    for _ in range(3):
        receiving.parser.feed(chunk)
    with pytest.raises(BodyTooLarge):
        await body


def test_a_long_body_is_not_received_before_its_request_is_handled() -> None:
    owner = Owner()
    receiving = receiver(owner)
    short, long = b"a" * LIMITS.early_body_bytes_max, b"a" * (LIMITS.early_body_bytes_max + 1)
    receiving.parser.feed(post("/", short)[:-1])
    assert owner.requests == []
    receiving.parser.feed(b"a" + post("/", long)[: -len(long)])
    first, second = owner.requests
    assert first.body == short and first.upload is None
    assert second.upload is not None and second.upload.length == len(long)


async def test_a_client_that_expects_continue_gets_100_when_its_body_is_wanted() -> None:
    owner = Owner()
    receiving = receiver(owner)
    receiving.parser.feed(post("/", b"12345", "Expect: 100-continue")[:-5])
    [request] = owner.requests
    assert owner.wire.written == b"" and request.upload is not None
    body = asyncio.ensure_future(request.upload.read(10))
    await asyncio.sleep(0)
    assert owner.wire.written == b"HTTP/1.1 100 Continue\r\n\r\n"
    receiving.parser.feed(b"12345")
    assert await body == b"12345"


def test_a_request_with_an_upload_is_received_before_its_body_is_complete() -> None:
    owner = Owner()
    receiving = receiver(owner)
    sent = post("/api/v1/nodes/n/proxy/", b"x" * 100)
    receiving.parser.feed(sent[:-50])
    [request] = owner.requests
    upload = request.upload
    assert upload is not None and upload is receiving.upload
    assert (upload.length, owner.uploads) == (100, 0)
    receiving.parser.feed(sent[-50:])
    assert upload.is_complete and receiving.upload is None and owner.uploads == 1


def test_what_follows_a_request_to_upgrade_is_given_back() -> None:
    owner = Owner()
    receiving = receiver(owner)
    sent = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n"
    assert receiving.parser.feed(sent + b"\x80\x03") == b"\x80\x03"
    assert receiving.parser.feed(GET) is None and len(owner.requests) == 2


def test_an_end_leaves_no_reference_cycle() -> None:
    owner = Owner()
    receiving = receiver(owner)
    receiving.parser.feed(GET)
    gc.disable()
    try:
        there = weakref.ref(owner)
        receiving.end()
        del owner
        assert there() is None
    finally:
        gc.enable()


def test_a_body_in_parts_of_two_bytes_takes_no_more_memory_than_its_bytes() -> None:
    owner = Owner()
    receiving = receiver(owner)
    head = b"POST /api/v1/pods HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
    receiving.parser.feed(head)
    chunks = b"2\r\nab\r\n" * 1000
    tracemalloc.start()
    try:
        for _ in range(30):
            receiving.parser.feed(chunks)
        assert tracemalloc.get_traced_memory()[0] < 2 * 60_000
    finally:
        tracemalloc.stop()
    assert receiving.held_bytes == 60_000 and len(owner.requests) == 1

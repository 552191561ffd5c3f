"""Messages as they arrive: however they are cut, they say the same; whatever comes, it is HTTP or refused."""

import asyncio
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alcove.agent.ingress.limits import Limits
from alcove.agent.ingress.message import Event, Head, Malformed, Mark, Messages

SECONDS = 5.0


def told(pieces: list[bytes], *, requests: bool = True, limits: Limits | None = None) -> list[Event]:
    """All events of what came in these pieces; adjoining pieces of a body are one."""

    async def collect() -> list[Event]:
        reader = asyncio.StreamReader()
        messages = Messages(reader, limits or Limits(), requests=requests)
        found: list[Event] = []
        for piece in pieces:
            reader.feed_data(piece)
            # Each piece is read by itself, as if the next had not come yet.
            await asyncio.sleep(0)
            await messages._read()
        reader.feed_eof()
        while True:
            event = await messages.next(SECONDS)
            if isinstance(event, bytes) and found and isinstance(found[-1], bytes):
                found[-1] += event
            else:
                found.append(event)
            if event is Mark.LOST:
                return found

    return asyncio.run(collect())


REQUESTS = (
    b"GET /a?b HTTP/1.1\r\nHost: a.example\r\nX-Empty:\r\n\r\n"
    b"POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: 5\r\n\r\nhello"
    b"PUT /c HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nTrailer: t\r\n\r\n"
)
RESPONSES = (
    b"HTTP/1.1 100 Continue\r\n\r\n"
    b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
    b"HTTP/1.1 204 No Content\r\n\r\n"
    b"HTTP/1.1 200 Fine\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n"
)


def cut(raw: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted({place % len(raw) for place in places} - {0}), len(raw)]
    return [raw[start:end] for start, end in pairwise(edges)]


@settings(deadline=None)
@given(st.lists(st.integers(0, 10_000), max_size=12))
def test_however_it_is_cut_it_says_the_same(places: list[int]) -> None:
    assert told(cut(REQUESTS, places)) == told([REQUESTS])
    assert told(cut(RESPONSES, places), requests=False) == told([RESPONSES], requests=False)


def test_what_requests_say() -> None:
    first, end, second, body, *rest = told([REQUESTS])
    assert isinstance(first, Head)
    assert (first.method, first.target, first.length, end) == (b"GET", b"/a?b", None, Mark.END)
    assert isinstance(second, Head)
    assert (second.method, second.length, second.is_chunked, body) == (b"POST", 5, False, b"hello")
    third = rest[1]
    assert isinstance(third, Head)
    assert third.is_chunked
    assert not third.values(b"trailer"), "trailers go no further"
    assert rest[2:] == [b"abcde", Mark.END, Mark.LOST]


@settings(deadline=None)
@given(st.binary(max_size=300), st.booleans())
def test_whatever_comes_is_http_or_refused(raw: bytes, requests: bool) -> None:
    try:
        found = told([raw] if raw else [], requests=requests)
    except Malformed as error:
        assert error.status in (400, 431)
    else:
        assert found[-1] is Mark.LOST


@settings(deadline=None)
@given(st.integers(0, len(REQUESTS) - 1), st.binary(min_size=1, max_size=4))
def test_a_spoiled_request_is_never_two(place: int, spoil: bytes) -> None:
    """Whatever is changed, no more requests are seen than line ends could begin."""
    raw = REQUESTS[:place] + spoil + REQUESTS[place + len(spoil) :]
    try:
        heads = [event for event in told([raw]) if isinstance(event, Head)]
    except Malformed:
        return
    assert len(heads) <= 3


@pytest.mark.parametrize(
    "head", [b"GET /" + b"x" * 5000 + b" HTTP/1.1\r\n\r\n", b"GET / HTTP/1.1\r\nX: " + b"y" * 10_000]
)
def test_a_head_without_end_is_too_large(head: bytes) -> None:
    with pytest.raises(Malformed) as refused:
        told(
            [head[start : start + 1000] for start in range(0, len(head), 1000)],
            limits=Limits(head_bytes_max=4096),
        )
    assert refused.value.status == 431

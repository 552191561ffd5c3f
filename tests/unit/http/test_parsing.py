"""Messages are parsed equally however they are split; ambiguous ones are rejected; framing is bounded."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from alcove.http.errors import HeadTooLarge, HttpError, MalformedMessage
from alcove.http.limits import HttpLimits
from alcove.http.messages import HttpHead, KnownHead
from alcove.http.parsing import HttpParser

END = "end"
Found = HttpHead | bytes | str
SMALL = HttpLimits(head_bytes_max=4_096, headers_max=20, interim_responses_max=2)


class Sink:
    """Records the parser's events; consecutive body data is joined."""

    def __init__(self) -> None:
        self.found: list[Found] = []
        self.known: list[KnownHead | None] = []

    def head_received(self, head: HttpHead) -> None:
        self.known.append(head.known)
        self.found.append(structs.replace(head, known=None))

    def body_received(self, data: bytes) -> None:
        if self.found and isinstance(self.found[-1], bytes):
            self.found[-1] += data
        else:
            self.found.append(data)

    def message_ended(self) -> None:
        self.found.append(END)


def parsed(*pieces: bytes, requests: bool = True, limits: HttpLimits = SMALL) -> list[Found]:
    sink = Sink()
    parser = HttpParser(sink, limits, requests=requests)
    for piece in pieces:
        while piece:
            piece = parser.feed(piece) or b""
    return sink.found


def heads(found: list[Found]) -> list[HttpHead]:
    return [each for each in found if isinstance(each, HttpHead)]


REQUESTS = (
    b"GET /a?b HTTP/1.1\r\nHost: a.example\r\nX-Empty:\r\n\r\n"
    b"POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: 5\r\n\r\nhello"
    b"PUT /c HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nTrailer: t\r\n\r\n"
    b"GET /last HTTP/1.1\r\nHost: a.example\r\n\r\n"
)
RESPONSES = (
    b"HTTP/1.1 100 Continue\r\n\r\n"
    b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
    b"HTTP/1.1 204 No Content\r\n\r\n"
    b"HTTP/1.1 200 Fine\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n"
)


def cut(raw: bytes, offsets: list[int]) -> list[bytes]:
    edges = [0, *sorted({offset % len(raw) for offset in offsets} - {0}), len(raw)]
    return [raw[start:end] for start, end in pairwise(edges)]


@settings(deadline=None)
@given(st.lists(st.integers(0, 10_000), max_size=12))
def test_messages_are_the_same_however_they_are_cut(offsets: list[int]) -> None:
    assert parsed(*cut(REQUESTS, offsets)) == parsed(REQUESTS)
    assert parsed(*cut(RESPONSES, offsets), requests=False) == parsed(RESPONSES, requests=False)


def test_heads_and_bodies_of_requests_are_parsed() -> None:
    first, end, second, body, *rest = parsed(REQUESTS)
    assert isinstance(first, HttpHead) and isinstance(second, HttpHead)
    assert (first.method, first.target, first.length, end) == (b"GET", b"/a?b", None, END)
    assert (second.method, second.length, second.is_chunked, body) == (b"POST", 5, False, b"hello")
    third = rest[1]
    assert isinstance(third, HttpHead)
    assert third.is_chunked
    assert "trailer" not in third.headers, "trailers are dropped"
    assert rest[2:4] == [b"abcde", END]


GET = b"GET /api/v1/pods HTTP/1.1\r\nHost: a.example\r\nAccept: application/json\r\n\r\n"


def outcome(*pieces: bytes) -> list[Found] | str:
    try:
        return parsed(*pieces)
    except HttpError as error:
        return str(error)


@settings(deadline=None)
@given(
    st.sampled_from((b"/api/v1/pods", b"/x?watch=1&a=b%20c", b"/#", b"/a b", b"*", b"//", b"x")),
    st.integers(0, len(GET)),
    st.binary(max_size=3),
    st.integers(0, 3),
)
def test_a_request_with_the_headers_of_the_last_one_is_parsed_as_any_other(
    target: bytes, offset: int, spoil: bytes, cut_out: int
) -> None:
    raw = GET.replace(b"/api/v1/pods", target)
    raw = raw[:offset] + spoil + raw[offset + cut_out :]
    alone, after = outcome(raw), outcome(GET, raw)
    if isinstance(alone, str) or isinstance(after, str):
        assert alone == after
    else:
        assert after == [*parsed(GET), *alone]


def test_headers_that_a_handler_changed_are_not_those_of_the_next_request() -> None:
    found = heads(parsed(GET))
    sink = Sink()
    parser = HttpParser(sink, SMALL, requests=True)
    for number in range(4):
        parser.feed(GET)
        latest = heads(sink.found)[-1]
        assert latest == found[0], number
        latest.headers["authorization"] = "Bearer of another"


def test_what_is_known_of_headers_belongs_to_these_headers_of_this_connection() -> None:
    other = GET.replace(b"Accept: application/json", b"Accept: application/yaml")
    sink = Sink()
    parser = HttpParser(sink, SMALL, requests=True)
    for raw in (GET, GET, GET, other, other, GET, GET):
        parser.feed(raw)
    first, second, third, fourth, fifth, sixth, seventh = sink.known
    assert first is None
    assert second is third is not None
    assert fourth is None
    assert fifth is not None
    assert sixth is None
    assert seventh is not None
    assert len({id(each) for each in (second, fifth, seventh)}) == 3


@pytest.mark.parametrize(
    "between",
    [
        GET.replace(b"Accept:", b"Connection: close\r\nAccept:"),
        b"POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: 5\r\n\r\nhel",
        GET[:-2],
    ],
)
def test_the_last_headers_are_forgotten_with_any_other_message(between: bytes) -> None:
    expected = outcome(GET + between + GET)
    assert outcome(GET, between, GET) == expected
    assert expected != [*parsed(GET), *parsed(GET), *parsed(GET)]


@settings(deadline=None)
@given(st.binary(max_size=300), st.booleans())
def test_arbitrary_input_is_parsed_or_rejected(raw: bytes, requests: bool) -> None:
    try:
        parsed(raw, requests=requests)
    except HttpError as error:
        assert error.status in (400, 431, 501, 505)


@settings(deadline=None)
@given(st.integers(0, len(REQUESTS) - 1), st.binary(min_size=1, max_size=4))
def test_a_corrupted_request_is_never_parsed_as_two(offset: int, spoil: bytes) -> None:
    """No more requests are parsed than there are line ends to begin them."""
    raw = REQUESTS[:offset] + spoil + REQUESTS[offset + len(spoil) :]
    try:
        found = heads(parsed(raw))
    except HttpError:
        return
    assert len(found) <= 4


AMBIGUOUS = (
    b"Content-Length: 5\r\nContent-Length: 5",
    b"Content-Length: 5\r\nContent-Length: 6",
    b"Content-Length: 5, 5",
    b"Content-Length: +5",
    b"Content-Length: 0x5",
    b"Content-Length:",
    b"Content-Length: 99999999999999999999",
    b"Content-Length: 5\r\nTransfer-Encoding: chunked",
    b"Transfer-Encoding: chunked\r\nContent-Length: 5",
    b"Transfer-Encoding: gzip",
    b"Transfer-Encoding: gzip, chunked",
    b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
    b"Transfer-Encoding: chunked, identity",
    b"Transfer-Encoding: xchunked",
    b"Transfer-Encoding : chunked",
    b" Transfer-Encoding: chunked",
    b"X: a\nContent-Length: 5",
    b"X: a\r\n folded",
    b"X: a\rb",
    b"X: a\x00b",
)


@pytest.mark.parametrize("header", AMBIGUOUS, ids=lambda header: header.decode("latin-1"))
@pytest.mark.parametrize("requests", [True, False], ids=["request", "response"])
def test_a_message_that_two_parsers_could_read_differently_is_refused(header: bytes, requests: bool) -> None:
    first = b"POST / HTTP/1.1\r\nHost: a\r\n" if requests else b"HTTP/1.1 200 OK\r\nA: a\r\n"
    with pytest.raises(MalformedMessage):
        parsed(first + header + b"\r\n\r\n0\r\n\r\n", requests=requests)


@pytest.mark.parametrize(
    "raw",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nhost: b\r\n\r\n",
        b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 2\r\n\r\nhi",
        b"CONNECT a:1 HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi",
        b"GET /\r\n\r\n",
        b"GET / HTTP/0.9\r\n\r\n",
        b"GET / HTTP/2.0\r\nHost: a\r\n\r\n",
        b"GET / HTTP/1.1\nHost: a\n\n",
        b"GET /a b HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhelloX\r\n0\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\nhello\r\n0\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFF\r\n",
    ],
)
def test_a_malformed_request_is_refused(raw: bytes) -> None:
    with pytest.raises(MalformedMessage):
        parsed(raw)


def test_the_body_of_a_request_to_upgrade_is_not_taken_for_a_request() -> None:
    smuggled = b"GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"
    raw = (
        b"POST / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: %d\r\n\r\n"
        % len(smuggled)
    )
    following = b"GET /next HTTP/1.1\r\nHost: a\r\n\r\n"
    for offsets in ([], [60], [len(raw)], [len(raw) + 5], list(range(0, 200, 3))):
        head, body, _, after, _ = parsed(*cut(raw + smuggled + following, offsets))
        assert isinstance(head, HttpHead) and isinstance(after, HttpHead)
        assert not head.upgrade and "upgrade" not in head.headers
        assert (body, after.target) == (smuggled, b"/next")


def test_what_follows_an_upgrade_is_returned() -> None:
    sink = Sink()
    parser = HttpParser(sink, SMALL, requests=True)
    raw = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    assert parser.feed(raw + b"bytes") == b"bytes"
    [head, end] = sink.found
    assert isinstance(head, HttpHead) and head.upgrade and end == END
    assert parser.is_idle


def test_repeated_fields_are_joined() -> None:
    raw = b"GET / HTTP/1.1\r\nHost: a\r\nAccept: b\r\nACCEPT: c\r\nCookie: d=1\r\nCookie: e=2\r\n\r\n"
    [head] = heads(parsed(raw))
    assert head.headers == {"host": "a", "accept": "b, c", "cookie": "d=1; e=2"}
    assert [value for _, value in head.fields] == [b"a", b"b", b"c", b"d=1", b"e=2"]


# Bounds

CHUNKED = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("beginning", "endless"),
    [
        (b"GET /", b"x"),
        (b"GET / HTTP/1.1\r\nHost: a\r\nX: ", b"y"),
        (b"GET / HTTP/1.1\r\nHost: a\r\n", b"a: b\r\n"),
        (b"", b"\r\n"),
        (CHUNKED + b"5;", b"extension"),
        (CHUNKED + b"5\r\nhello\r\n0\r\nTrailer: ", b"z"),
        (CHUNKED + b"0\r\n", b"a: b\r\n"),
    ],
    ids=["target", "value", "fields", "line ends", "chunk extension", "trailer", "trailers"],
)
def test_what_is_not_body_is_bounded(beginning: bytes, endless: bytes) -> None:
    parser = HttpParser(Sink(), SMALL, requests=True)
    fed = 0
    with pytest.raises(HeadTooLarge):
        parser.feed(beginning)
        while fed < 1 << 20:
            parser.feed(endless * 100)
            fed += len(endless) * 100
    assert fed <= SMALL.head_bytes_max + 2 * len(endless) * 100


def test_a_large_head_behind_another_request_is_refused() -> None:
    ordinary = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
    with pytest.raises(HeadTooLarge):
        parsed(ordinary + b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"y" * 5_000 + b"\r\n\r\n" + ordinary)
    assert len(heads(parsed(ordinary * 1_000))) == 1_000, "many at once are not large"


def test_headers_are_counted() -> None:
    some = b"GET / HTTP/1.1\r\nHost: a\r\n" + b"a: b\r\n" * (SMALL.headers_max - 1)
    assert heads(parsed(some + b"\r\n"))
    with pytest.raises(HeadTooLarge):
        parsed(some + b"a: b\r\n\r\n")
    with pytest.raises(HeadTooLarge):
        parsed(some + b"a: b\r\nc")  # Before its end: fields in memory take more than their bytes.


# Responses


def test_interim_responses_are_counted() -> None:
    interim, final = b"HTTP/1.1 103 Early Hints\r\n\r\n", b"HTTP/1.1 204 No Content\r\n\r\n"
    assert len(heads(parsed((interim * 2 + final) * 5, requests=False))) == 15
    with pytest.raises(MalformedMessage):
        parsed(interim * 3, requests=False)


def test_a_response_to_head_has_no_body() -> None:
    for raw in (
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
    ):
        sink = Sink()
        parser = HttpParser(sink, SMALL, requests=False)
        parser.is_bodiless = True
        parser.feed(raw)
        assert sink.found[-1] == END and parser.is_idle
    parser = HttpParser(Sink(), SMALL, requests=False)
    parser.is_bodiless = True
    with pytest.raises(MalformedMessage):
        parser.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")


def test_a_101_that_names_no_protocol_is_refused() -> None:
    with pytest.raises(MalformedMessage):
        parsed(b"HTTP/1.1 101 Switching\r\n\r\n", requests=False)

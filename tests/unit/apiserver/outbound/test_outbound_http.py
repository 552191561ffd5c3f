"""Answers of webhooks, however they are cut into pieces, and where they end."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alcove.apiserver.outbound import http
from alcove.apiserver.outbound.errors import WebhookError
from alcove.apiserver.outbound.http import Answer

PLAIN = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n"
CONTINUED = b"HTTP/1.1 100 Continue\r\n\r\n" + PLAIN


def read(data: bytes, cuts: list[int]) -> Answer:
    answer, start = Answer(), 0
    for end in (*sorted(cut % len(data) for cut in cuts), len(data)):
        if end > start:
            answer.feed(data[start:end])
        start = end
    return answer


@given(st.sampled_from([PLAIN, CHUNKED, CONTINUED]), st.lists(st.integers(0, 200), max_size=6))
def test_an_answer_is_the_same_however_it_is_cut(data: bytes, cuts: list[int]) -> None:
    answer = read(data, cuts)
    assert (answer.status, bytes(answer.body), answer.is_complete, answer.is_kept) == (
        200,
        b"hello",
        True,
        True,
    )


def test_an_answer_that_ends_with_the_connection() -> None:
    answer = Answer()
    answer.feed(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhel")
    answer.feed(b"lo")
    assert not answer.is_complete
    answer.end()
    assert answer.is_complete and not answer.is_kept and bytes(answer.body) == b"hello"


@pytest.mark.parametrize("data", [b"", b"HTTP/1.1 200 OK\r\n", PLAIN[:-1], CHUNKED[:-5]])
def test_a_connection_that_breaks_off(data: bytes) -> None:
    answer = Answer()
    if data:
        answer.feed(data)
    with pytest.raises(ConnectionError):
        answer.end()


@pytest.mark.parametrize(
    "data",
    [
        b"SSH-2.0-OpenSSH\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    ],
)
def test_what_is_not_http(data: bytes) -> None:
    with pytest.raises(WebhookError, match="did not answer in HTTP"):
        Answer().feed(data)


def test_headers_and_bodies_are_bounded() -> None:
    answer = Answer()
    with pytest.raises(WebhookError, match="bytes of headers"):
        for _ in range(100):
            answer.feed(b"HTTP/1.1 200 OK\r\n" if not answer._head_bytes else b"a: " + b"b" * 4096 + b"\r\n")
    answer = Answer()
    answer.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n")
    with pytest.raises(WebhookError, match="more than"):
        while True:
            answer.feed(b"x" * (1 << 20))
    assert len(answer.body) <= http.BODY_BYTES_MAX + (1 << 20)

"""Messages to bytes."""

from alcove.http import writing


def test_a_chunk_has_its_length_in_hexadecimal() -> None:
    assert writing.chunk(b"x" * 17) == b"11\r\n" + b"x" * 17 + b"\r\n"


def test_heads_end_with_an_empty_line() -> None:
    head = writing.request_head("GET", "/a?b", {"Host": "h", "X": "é"})
    assert head == b"GET /a?b HTTP/1.1\r\nHost: h\r\nX: \xe9\r\n\r\n"
    assert writing.response_head(200, {}) == b"HTTP/1.1 200 OK\r\n\r\n"
    assert writing.response_head(299, {"A": "b"}) == b"HTTP/1.1 299 Status\r\nA: b\r\n\r\n"
    assert writing.head(b"GET / HTTP/1.1", [(b"A", b"b")]) == b"GET / HTTP/1.1\r\nA: b\r\n\r\n"

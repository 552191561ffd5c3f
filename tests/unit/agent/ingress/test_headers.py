"""The headers that the proxy sends to backends and clients."""

from alcove.agent.ingress import headers
from alcove.agent.ingress.headers import ForwardedClient
from alcove.http.messages import HttpHead
from alcove.http.parsing import combined

CLIENT = ForwardedClient("198.51.100.7", "https", 443, "shop.example")


def head(*pairs: tuple[str, str], method: bytes = b"GET", status: int = 0, upgrade: bool = False) -> HttpHead:
    fields = [(name.encode(), value.encode()) for name, value in pairs]
    return HttpHead(
        fields,
        combined(fields),
        "1.1",
        True,
        upgrade,
        method=method,
        target=b"/x",
        status=status,
        reason=b"Fine",
    )


def lines(raw: bytes) -> list[str]:
    text = raw.decode()
    assert text.endswith("\r\n\r\n")
    return text[:-4].split("\r\n")


def test_a_backend_gets_the_address_of_the_client() -> None:
    found = lines(headers.request(head(("Accept", "*/*")), "shop.example:8443", b"/x", CLIENT))
    assert found[0] == "GET /x HTTP/1.1"
    assert {
        "Host: shop.example:8443", "X-Forwarded-For: 198.51.100.7", "X-Forwarded-Host: shop.example:8443",
        "X-Forwarded-Port: 443", "X-Forwarded-Proto: https", "X-Real-IP: 198.51.100.7", "Accept: */*",
    } == set(found[1:])  # fmt: skip


def test_forwarded_headers_of_the_client_are_dropped() -> None:
    lies = [("X-Forwarded-For", "1.1.1.1"), ("x-real-ip", "1.1.1.1"), ("FORWARDED", "for=1.1.1.1")]
    assert "1.1.1.1" not in headers.request(head(*lies), "h", b"/", CLIENT).decode()


def test_headers_of_the_connection_stay_behind() -> None:
    pairs = [
        ("Connection", "close, X-Hop"),
        ("X-Hop", "1"),
        ("Keep-Alive", "5"),
        ("TE", "trailers"),
        ("X-End", "2"),
    ]
    found = lines(headers.request(head(*pairs), "h", b"/", CLIENT))
    assert not [line for line in found if line.split(":")[0] in ("Connection", "X-Hop", "Keep-Alive", "TE")]
    assert "X-End: 2" in found


def test_connection_options_cannot_remove_the_length() -> None:
    pairs = [("Connection", "Content-Length, Host"), ("Content-Length", "5"), ("Host", "h")]
    found = lines(headers.request(head(*pairs, method=b"POST"), "h", b"/", CLIENT))
    assert "Content-Length: 5" in found
    assert found.count("Host: h") == 1


def test_only_a_websocket_is_another_protocol() -> None:
    websocket = head(("Upgrade", "websocket"), ("Connection", "Upgrade"), upgrade=True)
    assert headers.wants_websocket(websocket)
    assert "Upgrade: websocket" in lines(headers.request(websocket, "h", b"/", CLIENT))
    other = head(
        ("Upgrade", "h2c"), ("Connection", "Upgrade, HTTP2-Settings"), ("HTTP2-Settings", "x"), upgrade=True
    )
    assert not headers.wants_websocket(other)
    sent = headers.request(other, "h", b"/", CLIENT).lower()
    assert b"h2c" not in sent and b"http2-settings" not in sent and b"upgrade" not in sent


def test_a_response_is_framed_again() -> None:
    response = head(
        ("Transfer-Encoding", "chunked"), ("X-Own", "1"), ("Connection", "keep-alive"), status=200
    )
    assert lines(headers.response(response, chunked=True, keep_alive=True)) == [
        "HTTP/1.1 200 Fine", "X-Own: 1", "Transfer-Encoding: chunked",
    ]  # fmt: skip
    assert lines(headers.response(response, chunked=False, keep_alive=False))[-1] == "Connection: close"


def test_our_own_answers_are_whole() -> None:
    raw = headers.refusal(404)
    first, _, body = raw.partition(b"\r\n\r\n")
    assert f"Content-Length: {len(body)}".encode() in first
    assert headers.refusal(404, has_body=False).endswith(b"\r\n\r\n")

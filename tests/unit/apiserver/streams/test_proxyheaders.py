"""Redirects of a backend, and headers that are not forwarded."""

from __future__ import annotations

import pytest

from alcove.apiserver.streams.proxy_targets import ProxyPath
from alcove.apiserver.streams.proxyheaders import answer_headers, length_of, relocated, request_headers
from alcove.http.messages import HttpRequest

PREFIX = "/api/v1/namespaces/a/pods/p/proxy"


@pytest.mark.parametrize(
    ("rest", "location", "message"),
    [
        ("/", "/x", "./x"),
        ("/a", "/x?y#z", "./x?y#z"),
        ("/a/", "/x/", "../x/"),
        ("/a/b/c", "/", "../../"),
        ("/a", "b", "b"),
        ("/a", "?q", "?q"),
        ("/a", "https://h:1/x", "./x"),
        ("/a", "https://h:1", "./"),
        ("/a", "https://other/x", "https://other/x"),
        ("/a", "//other/x", "//other/x"),
        ("/a", f"{PREFIX}/x", f"{PREFIX}/x"),
        ("/a", "//[", "//["),
        ("/a", "/b:c", "./b:c"),
    ],
)
def test_redirects(rest: str, location: str, message: str) -> None:
    assert relocated(location, ProxyPath(PREFIX, rest), "h:1") == message


def test_headers_that_are_not_forwarded_to_the_backend() -> None:
    headers = {
        "host": "h:1",
        "authorization": "Bearer x",
        "impersonate-user": "root",
        "x-remote-group": "system:masters",
        "x-forwarded-for": "1.1.1.1",
        "x-forwarded-port": "1",
        "connection": "close, x-hop",
        "x-hop": "1",
        "te": "trailers",
        "expect": "100-continue",
        "accept": "*/*",
    }
    request = HttpRequest("DELETE", f"{PREFIX}/x", "", headers, address="2.2.2.2")
    assert request_headers(request, ProxyPath(PREFIX, "/x")) == {
        "host": "h:1",
        "accept": "*/*",
        "x-forwarded-for": "1.1.1.1, 2.2.2.2",
        "x-forwarded-host": "h:1",
        "x-forwarded-proto": "https",
        "x-forwarded-uri": f"{PREFIX}/x",
        "connection": "close",
    }


def test_headers_that_are_returned_to_the_client() -> None:
    fields = [
        (b"Connection", b"keep-alive, X-Hop"),
        (b"X-Hop", b"1"),
        (b"Set-Cookie", b"a"),
        (b"Set-Cookie", b"b"),
        (b"Content-Length", b"1"),
        (b"Content-Type", b"x/y"),
        (b"Transfer-Encoding", b"chunked"),
        (b"Access-Control-Allow-Origin", b"*"),
        (b"Upgrade", b"websocket"),
    ]
    assert answer_headers(fields, False) == [(b"Set-Cookie", b"a"), (b"Set-Cookie", b"b")]
    upgraded = answer_headers(fields, True)
    assert (b"Connection", b"Upgrade") in upgraded
    assert (b"Upgrade", b"websocket") in upgraded


@pytest.mark.parametrize(
    ("headers", "length"),
    [
        ({"content-length": "12"}, 12),
        ({}, None),
        ({"content-length": "x"}, None),
        ({"content-length": "12", "transfer-encoding": "chunked"}, None),
    ],
)
def test_lengths(headers: dict[str, str], length: int | None) -> None:
    assert length_of(headers) == length


@pytest.mark.parametrize(
    ("offered", "forwarded"),
    [
        ("base64url.bearer.authorization.k8s.io.c2VjcmV0, v5.channel.k8s.io", "v5.channel.k8s.io"),
        ("a, base64url.bearer.authorization.k8s.io.c2VjcmV0,b", "a, b"),
        ("base64url.bearer.authorization.k8s.io.c2VjcmV0", None),
        ("a", "a"),
    ],
)
def test_the_token_of_a_websocket_is_not_forwarded(offered: str, forwarded: str | None) -> None:
    request = HttpRequest("GET", f"{PREFIX}/x", "", {"sec-websocket-protocol": offered})
    assert request_headers(request, ProxyPath(PREFIX, "/x")).get("sec-websocket-protocol") == forwarded


def test_a_tenants_page_is_not_of_this_servers_origin_for_a_browser_of_ring0() -> None:
    fields = [(b"Content-Security-Policy", b"default-src *"), (b"Set-Cookie", b"__Secure-alcove-console=x")]
    sandbox = (b"Content-Security-Policy", b"sandbox allow-forms allow-scripts")
    # All policies of a response apply.
    assert answer_headers(fields, False, is_foreign=True) == [sandbox, fields[0]]

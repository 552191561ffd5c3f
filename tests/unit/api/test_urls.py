"""URLs as Go reads them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alcove.api.urls import UrlError, is_request_uri, parse_request_uri


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "empty url"),
        ("a/b", "invalid URI for request"),
        (":x", "missing protocol scheme"),
        ("http://a\x7f/", "net/url: invalid control character in URL"),
        ("http://[::1/", "missing ']' in host"),
        ("http://a:b/", 'invalid port ":b" after host'),
        ("http://a:1:2/", 'invalid port ":1:2" after host'),
        ("http://a b/", 'invalid character " " in host name'),
        ("http://a/%zz", 'invalid URL escape "%zz"'),
        ("http://a^b@c/", "net/url: invalid userinfo"),
    ],
)
def test_refused(text: str, message: str) -> None:
    with pytest.raises(UrlError) as caught:
        parse_request_uri(text)
    assert str(caught.value) == message


def test_parts() -> None:
    url = parse_request_uri("HTTPS://user:pass@Example.com:8443/a%2Fb c?x=1&x=2&y=%41+b&bad=%zz#frag")
    assert (url.scheme, url.host, url.hostname, url.port) == (
        "https",
        "Example.com:8443",
        "Example.com",
        "8443",
    )
    assert url.escaped_path == "/a/b%20c"
    assert url.query == {"x": ["1", "2"], "y": ["A b"]}


@given(st.text(max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        parse_request_uri(text)
    except UrlError:
        assert not is_request_uri(text)
    else:
        assert is_request_uri(text)

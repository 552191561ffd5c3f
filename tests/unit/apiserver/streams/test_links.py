"""Which links of proxied pages are rewritten, and how."""

import gzip
import time
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alcove.apiserver.streams.links import PAGE_BYTES_MAX, is_page, rewrite_page
from alcove.apiserver.streams.proxy_targets import ProxyPath

PREFIX = "/api/v1/namespaces/default/services/web/proxy"
PATH = ProxyPath(PREFIX, "/index.html")
HOST = "cluster:6443"


def rewritten(page: str) -> str:
    return rewrite_page(page.encode(), "", PATH, HOST).decode()


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ('<a href="/rewriteme">test</a>', f'<a href="{PREFIX}/rewriteme">test</a>'),
        ("<a href='/x?a=1&amp;b=2#c'>", f"<a href='{PREFIX}/x?a=1&amp;b=2#c'>"),
        ("<a href=/x>", f"<a href={PREFIX}/x>"),
        ("<A  HREF = '/x' >", f"<A  HREF = '{PREFIX}/x' >"),
        ("<img src=/a.png alt=/b>", f"<img src={PREFIX}/a.png alt=/b>"),
        ("<br/><link rel=x href=/a.css /><p>", f"<br/><link rel=x href={PREFIX}/a.css /><p>"),
        (f"<a href=http://{HOST}/x>", f"<a href=http://{HOST}{PREFIX}/x>"),
        ("<form action=/>", f"<form action={PREFIX}/>"),
        ("<a title='>' href=/x>", f"<a title='>' href={PREFIX}/x>"),
        ("<a title=5\" href=/x>", f"<a title=5\" href={PREFIX}/x>"),
        ("<script src=/a.js>'<a href=/x>'</script><a href=/y>", None),
        ("ä<a href=/ä>ü", f"ä<a href={PREFIX}/ä>ü"),
    ],
)  # fmt: skip
def test_absolute_paths_get_the_proxied_path_in_front(page: str, expected: str | None) -> None:
    if expected is None:
        expected = f"<script src={PREFIX}/a.js>'<a href=/x>'</script><a href={PREFIX}/y>"
    assert rewritten(page) == expected


@pytest.mark.parametrize(
    "page",
    [
        "<a href=x>",
        "<a href=../x>",
        "<a href=''>",
        "<a href>",
        "<a href=#top>",
        "<a href=https://example.com/x>",
        "<a href=//example.com/x>",
        f"<a href={PREFIX}/x>",
        "<a data-x=/x>",
        "<p href=/x>",
        "<!-- <a href=/x> -->",
        "<title><a href=/x></title>",
        "<textarea><a href=/x>",
        "</a href=/x>",
        "<a href='/x",
        "<a href=/x",
        "< a href=/x>",
        "<a href=http://[::1/x>",
        "",
    ],
)
def test_everything_else_stays(page: str) -> None:
    assert rewritten(page) == page


@given(st.binary(max_size=200), st.sampled_from([b"", b"<a ", b"<a href=", b"<script>", b"<!--", b"'"]))
def test_any_bytes_are_a_page(page: bytes, before: bytes) -> None:
    """Whatever a pod sends: without the added paths it is what it was."""
    once = rewrite_page(before + page, "", PATH, HOST)
    assert once.replace(PREFIX.encode(), b"") == (before + page).replace(PREFIX.encode(), b"")


@pytest.mark.parametrize(
    "piece", ["<a ", "<a href='", '<a "', "<!--", "<title>", "<a href=/x>", "<", "</", "<a /=", "<a href=  "]
)
def test_no_page_takes_long(piece: str) -> None:
    """The time grows with the length: a page of ten times the length would take a hundred times as long otherwise."""
    page = (piece * (PAGE_BYTES_MAX // len(piece))).encode()
    began = time.process_time()
    rewrite_page(page, "", PATH, HOST)
    assert time.process_time() - began < 40


def test_compressed_pages_stay_compressed() -> None:
    page, expected = b"<a href=/x>", f"<a href={PREFIX}/x>".encode()
    assert gzip.decompress(rewrite_page(gzip.compress(page), "gzip", PATH, HOST)) == expected
    raw = zlib.compress(page, wbits=-15)
    assert zlib.decompress(rewrite_page(raw, "deflate", PATH, HOST), -15) == expected


@pytest.mark.parametrize(
    ("body", "encoding"),
    [
        (b"<a href=/x>", "br"),
        (b"<a href=/x>", "gzip"),
        (gzip.compress(b"<a href=/x>")[:-3], "gzip"),
        (gzip.compress(b"<a href=/x>") + b"more", "gzip"),
        (gzip.compress(bytes(PAGE_BYTES_MAX + 1)), "gzip"),
    ],
    ids=["unknown", "not compressed", "cut", "trailed", "long"],
)
def test_what_cannot_be_decoded_is_passed_on(body: bytes, encoding: str) -> None:
    assert rewrite_page(body, encoding, PATH, HOST) == body


@pytest.mark.parametrize(
    ("content_type", "expected"),
    [("text/html", True), ("Text/HTML; charset=utf-8", True), ("text/plain", False), ("", False)],
)
def test_what_is_a_page(content_type: str, expected: bool) -> None:
    assert is_page(content_type) is expected

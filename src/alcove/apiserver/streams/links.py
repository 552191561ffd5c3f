"""Links in proxied HTML pages, rewritten to stay below the proxied path. Pure: no I/O.

A page that links to `/style.css` means its own server; behind the proxy that path is the API server's. Kubernetes
rewrites the same attributes by the same rule. All other bytes of a page stay as they are.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit, urlunsplit

from alcove.apiserver.streams.proxy_targets import ProxyPath

PAGE_BYTES_MAX = 1 << 20
"""Bytes of a page whose links are rewritten, with and without compression; a longer one is passed on as it is."""
_ATTRIBUTES = {
    "a": ("href",),
    "applet": ("codebase",),
    "area": ("href",),
    "audio": ("src",),
    "base": ("href",),
    "blockquote": ("cite",),
    "body": ("background",),
    "button": ("formaction",),
    "command": ("icon",),
    "del": ("cite",),
    "embed": ("src",),
    "form": ("action",),
    "frame": ("longdesc", "src"),
    "head": ("profile",),
    "html": ("manifest",),
    "iframe": ("longdesc", "src"),
    "img": ("longdesc", "src", "usemap"),
    "input": ("src", "usemap", "formaction"),
    "ins": ("cite",),
    "link": ("href",),
    "object": ("classid", "codebase", "data", "usemap"),
    "q": ("cite",),
    "script": ("src",),
    "source": ("src",),
    "video": ("poster", "src"),
}
_RAW_TEXT = frozenset(
    ("iframe", "noembed", "noframes", "noscript", "plaintext", "script", "style", "textarea", "title", "xmp")
)
"""Elements whose content has no tags but their own end."""
_MARKUP = re.compile(r"<(?:(?P<comment>!--)|(?P<other>[!?/])|(?P<tag>[A-Za-z][^\s/>]*+))")
_NAME = re.compile(r"[\s/]*+(?P<name>[^\s/>][^\s/>=]*+)(?:\s*+(?P<equals>=)\s*+)?+")
_TAG_END = re.compile(r"[\s/]*+>")
_BARE_VALUE = re.compile(r"[^\s>]*+")
_WINDOW_BITS = {"gzip": 31, "deflate": -zlib.MAX_WBITS}
"""By the value of Content-Encoding."""


def is_page(content_type: str) -> bool:
    return content_type.partition(";")[0].strip().lower() == "text/html"


def rewrite_page(body: bytes, encoding: str, path: ProxyPath, host: str) -> bytes:
    """The page with links below `path`, in the same encoding; `host` is the Host of the request. A page that cannot
    be decoded, or is too long, is returned unchanged."""
    if not encoding:
        return _rewrite(body, path, host)
    if encoding not in _WINDOW_BITS:
        return body
    decoder = zlib.decompressobj(_WINDOW_BITS[encoding])
    try:
        page = decoder.decompress(body, PAGE_BYTES_MAX)
    except zlib.error:
        return body
    if not decoder.eof or decoder.unused_data:
        return body
    encoder = zlib.compressobj(wbits=_WINDOW_BITS[encoding])
    return encoder.compress(_rewrite(page, path, host)) + encoder.flush()


def _rewrite(page: bytes, path: ProxyPath, host: str) -> bytes:
    # Latin-1 keeps every byte; the characters of tags and of the proxied path are ASCII in all usual encodings.
    text, done = page.decode("latin-1"), 0
    pieces: list[str] = []
    for start, end in _link_positions(text):
        pieces += (text[done:start], relinked(text[start:end], path, host))
        done = end
    return "".join([*pieces, text[done:]]).encode("latin-1")


def relinked(link: str, path: ProxyPath, host: str) -> str:
    """The link as the client must see it: absolute paths of the same host get the proxied path in front."""
    try:
        parts = urlsplit(link)
    except ValueError:
        return link
    if (parts.netloc and parts.netloc != host) or not parts.path.startswith("/"):
        return link
    if parts.path.startswith(path.prefix):
        return link
    if not parts.scheme and not parts.netloc:
        return path.prefix + link
    return urlunsplit(parts._replace(path=path.prefix + parts.path))


def _link_positions(text: str) -> Iterator[tuple[int, int]]:
    """Start and end of the links in all tags, in order. An unfinished tag or comment lasts to the end of the page,
    so each character is looked at once."""
    position = 0
    while (markup := _MARKUP.search(text, position)) is not None:
        if markup["tag"] is None:
            closing = "-->" if markup["comment"] else ">"
            position = text.find(closing, markup.end())
            if position < 0:
                return
            continue
        tag = markup["tag"].lower()
        links: list[tuple[int, int]] = []
        position = _read_tag(text, markup.end(), _ATTRIBUTES.get(tag, ()), links.append)
        if position < 0:
            return
        yield from links
        if tag in _RAW_TEXT:
            end = re.compile(f"</{tag}", re.IGNORECASE).search(text, position)
            if end is None:
                return
            position = end.start()


def _read_tag(
    text: str, position: int, wanted: tuple[str, ...], found: Callable[[tuple[int, int]], None]
) -> int:
    """Reports the values of the wanted attributes. Returns the end of the tag; -1 if it has none."""
    while (end := _TAG_END.match(text, position)) is None:
        name = _NAME.match(text, position)
        if name is None:
            return -1
        position = name.end()
        if not name["equals"]:
            continue
        quote = text[position : position + 1]
        if quote in ('"', "'") and quote:
            start, stop = position + 1, text.find(quote, position + 1)
            if stop < 0:
                return -1
            position = stop + 1
        else:
            bare = _BARE_VALUE.match(text, position)
            assert bare is not None
            start, stop = bare.span()
            position = stop
        if name["name"].lower() in wanted:
            found((start, stop))
    return end.end()

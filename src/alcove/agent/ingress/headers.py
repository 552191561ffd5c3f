"""Heads of forwarded messages: hop-by-hop headers are removed, X-Forwarded-* headers are added. Pure: no
I/O."""

from msgspec import Struct

from alcove.http import writing
from alcove.http.messages import Field, HttpHead

_HOP_BY_HOP = frozenset(
    (
        b"connection",
        b"http2-settings",
        b"keep-alive",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    )
)
_FORWARDED = frozenset(
    (
        b"forwarded", b"x-forwarded-for", b"x-forwarded-host", b"x-forwarded-port", b"x-forwarded-proto",
        b"x-forwarded-server", b"x-real-ip", b"x-original-forwarded-for",
    )
)  # fmt: skip
"""Dropped from requests, because there is no trusted proxy in front of the ingress."""


class ForwardedClient(Struct, frozen=True):
    """The client of a request, and how it connected."""

    address: str
    scheme: str
    port: int
    name: str = ""
    """The SNI of its TLS connection."""


def _end_to_end(head: HttpHead, drop: frozenset[bytes]) -> list[Field]:
    listed = head.headers.get("connection", "").encode("latin-1")
    listed_names = {token.strip().lower() for token in listed.split(b",") if token.strip()}
    # `Connection` may list headers to be removed, but not those that define the request or its framing.
    hop = drop | (listed_names - {b"host", b"content-length"})
    return [(name, value) for name, value in head.fields if name.lower() not in hop]


def wants_websocket(head: HttpHead) -> bool:
    protocol = head.headers.get("upgrade", "").strip().lower()
    return head.upgrade and head.method == b"GET" and protocol == "websocket"


def request(head: HttpHead, host: str, path: bytes, client: ForwardedClient) -> bytes:
    """The request head for the backend. The body keeps its framing: by length or chunked."""
    headers = _end_to_end(head, _HOP_BY_HOP | _FORWARDED | {b"host"})
    added: list[Field] = [
        (b"Host", host.encode("latin-1")),
        (b"X-Forwarded-For", client.address.encode()),
        (b"X-Forwarded-Host", host.encode("latin-1")),
        (b"X-Forwarded-Port", str(client.port).encode()),
        (b"X-Forwarded-Proto", client.scheme.encode()),
        (b"X-Real-IP", client.address.encode()),
    ]
    if head.is_chunked:
        added.append((b"Transfer-Encoding", b"chunked"))
    if wants_websocket(head):
        added += [(b"Connection", b"Upgrade"), (b"Upgrade", b"websocket")]
    return writing.head(head.method + b" " + path + b" HTTP/1.1", [*added, *headers])


def response(head: HttpHead, *, chunked: bool, keep_alive: bool) -> bytes:
    """The response head for the client."""
    headers = _end_to_end(head, _HOP_BY_HOP)
    if chunked:
        headers.append((b"Transfer-Encoding", b"chunked"))
    if head.status == 101:
        headers += [(b"Connection", b"Upgrade"), (b"Upgrade", b"websocket")]
    elif not keep_alive and head.status >= 200:
        headers.append((b"Connection", b"close"))
    return writing.head(writing.status_line(head.status, head.reason), headers)


def refusal(status: int, message: str = "", *, keep_alive: bool = False, has_body: bool = True) -> bytes:
    """A response of the ingress itself."""
    reason = writing.REASONS.get(status, b"Error")
    text = b"%d %b%b\n" % (status, reason, f": {message}".encode() if message else b"")
    headers = [(b"Content-Type", b"text/plain; charset=utf-8"), (b"Content-Length", str(len(text)).encode())]
    if not keep_alive:
        headers.append((b"Connection", b"close"))
    head = writing.head(writing.status_line(status, reason), headers)
    return head + text if has_body else head

"""What is said to the other side: heads with the hop's own headers taken out, and what the backend has to know of the
client put in. Pure."""

from msgspec import Struct

from alcove.http import writing
from alcove.http.messages import Field, HttpHead

_HOP = frozenset(
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
"""Nobody in front of us is to be believed: what a client says of itself here is dropped."""


class ForwardedClient(Struct, frozen=True):
    """Who asks, and how it came here."""

    address: str
    scheme: str
    port: int
    name: str = ""
    """The server name that its TLS connection was opened for."""


def _kept(head: HttpHead, drop: frozenset[bytes]) -> list[Field]:
    listed = head.headers.get("connection", "").encode("latin-1")
    named = {token.strip().lower() for token in listed.split(b",") if token.strip()}
    # A client may name a header as the connection's own to have it taken out: not those that say what follows.
    hop = drop | (named - {b"host", b"content-length"})
    return [(name, value) for name, value in head.fields if name.lower() not in hop]


def wants_websocket(head: HttpHead) -> bool:
    wanted = head.headers.get("upgrade", "").strip().lower()
    return head.upgrade and head.method == b"GET" and wanted == "websocket"


def request(head: HttpHead, host: str, path: bytes, client: ForwardedClient) -> bytes:
    """The head that the backend gets. The body follows as it came: by its length, or in chunks."""
    headers = _kept(head, _HOP | _FORWARDED | {b"host"})
    told: list[Field] = [
        (b"Host", host.encode("latin-1")),
        (b"X-Forwarded-For", client.address.encode()),
        (b"X-Forwarded-Host", host.encode("latin-1")),
        (b"X-Forwarded-Port", str(client.port).encode()),
        (b"X-Forwarded-Proto", client.scheme.encode()),
        (b"X-Real-IP", client.address.encode()),
    ]
    if head.is_chunked:
        told.append((b"Transfer-Encoding", b"chunked"))
    if wants_websocket(head):
        told += [(b"Connection", b"Upgrade"), (b"Upgrade", b"websocket")]
    return writing.head(head.method + b" " + path + b" HTTP/1.1", [*told, *headers])


def response(head: HttpHead, *, chunked: bool, keep_alive: bool) -> bytes:
    """The head that the client gets."""
    headers = _kept(head, _HOP)
    if chunked:
        headers.append((b"Transfer-Encoding", b"chunked"))
    if head.status == 101:
        headers += [(b"Connection", b"Upgrade"), (b"Upgrade", b"websocket")]
    elif not keep_alive and head.status >= 200:
        headers.append((b"Connection", b"close"))
    return writing.head(writing.status_line(head.status, head.reason), headers)


def refusal(status: int, why: str = "", *, keep_alive: bool = False, has_body: bool = True) -> bytes:
    """An answer of our own."""
    reason = writing.REASONS.get(status, b"Error")
    text = b"%d %b%b\n" % (status, reason, f": {why}".encode() if why else b"")
    headers = [(b"Content-Type", b"text/plain; charset=utf-8"), (b"Content-Length", str(len(text)).encode())]
    if not keep_alive:
        headers.append((b"Connection", b"close"))
    head = writing.head(writing.status_line(status, reason), headers)
    return head + text if has_body else head

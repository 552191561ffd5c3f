"""What is said to the other side: heads with the hop's own headers taken out, and what the backend has to know of the
client put in. Pure."""

from collections.abc import Iterable

from msgspec import Struct

from alcove.agent.ingress.message import Head, Headers

_HOP = frozenset(
    (b"connection", b"keep-alive", b"proxy-connection", b"te", b"trailer", b"transfer-encoding", b"upgrade")
)
_FORWARDED = frozenset(
    (
        b"forwarded", b"x-forwarded-for", b"x-forwarded-host", b"x-forwarded-port", b"x-forwarded-proto",
        b"x-forwarded-server", b"x-real-ip", b"x-original-forwarded-for",
    )
)  # fmt: skip
"""Nobody in front of us is to be believed: what a client says of itself here is dropped."""
REASONS = {
    400: "Bad Request", 404: "Not Found", 408: "Request Timeout", 413: "Content Too Large", 417: "Expectation Failed",
    421: "Misdirected Request", 431: "Request Header Fields Too Large", 501: "Not Implemented", 502: "Bad Gateway",
    503: "Service Unavailable", 504: "Gateway Timeout",
}  # fmt: skip


class Client(Struct, frozen=True):
    """Who asks, and how it came here."""

    address: str
    scheme: str
    port: int
    name: str = ""
    """The server name that its TLS connection was opened for."""


def _kept(head: Head, drop: frozenset[bytes]) -> Headers:
    named = {
        token.strip().lower()
        for value in head.values(b"connection")
        for token in value.split(b",")
        if token.strip()
    }
    # A client may name a header as the connection's own to have it taken out: not those that say what follows.
    hop = drop | (named - {b"host", b"content-length"})
    return [(name, value) for name, value in head.headers if name.lower() not in hop]


def _lines(first: bytes, headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    return b"\r\n".join([first, *(name + b": " + value for name, value in headers), b"", b""])


def wants_websocket(head: Head) -> bool:
    tokens = [value.strip().lower() for value in head.values(b"upgrade")]
    return head.upgrade and head.method == b"GET" and tokens == [b"websocket"]


def request(head: Head, host: str, path: bytes, client: Client) -> bytes:
    """The head that the backend gets. The body follows as it came: by its length, or in chunks."""
    headers = _kept(head, _HOP | _FORWARDED | {b"host"})
    told: Headers = [
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
    return _lines(head.method + b" " + path + b" HTTP/1.1", [*told, *headers])


def plain(head: Head) -> bytes:
    """The request's head without its wish for another protocol."""
    headers = [
        (name, value) for name, value in head.headers if name.lower() not in (b"upgrade", b"http2-settings")
    ]
    headers = [(name, value) for name, value in headers if name.lower() != b"connection"]
    first = head.method + b" " + head.target + b" HTTP/" + head.version.encode()
    return _lines(first, headers if head.keep_alive else [*headers, (b"Connection", b"close")])


def response(head: Head, *, chunked: bool, keep_alive: bool) -> bytes:
    """The head that the client gets."""
    headers = _kept(head, _HOP)
    if chunked:
        headers.append((b"Transfer-Encoding", b"chunked"))
    if head.status == 101:
        headers += [(b"Connection", b"Upgrade"), (b"Upgrade", b"websocket")]
    elif not keep_alive and head.status >= 200:
        headers.append((b"Connection", b"close"))
    return _lines(b"HTTP/1.1 " + str(head.status).encode() + b" " + head.reason, headers)


def refusal(status: int, why: str = "", *, keep_alive: bool = False, has_body: bool = True) -> bytes:
    """An answer of our own."""
    reason = REASONS.get(status, "Error")
    text = f"{status} {reason}{': ' + why if why else ''}\n".encode()
    headers = [(b"Content-Type", b"text/plain; charset=utf-8"), (b"Content-Length", str(len(text)).encode())]
    if not keep_alive:
        headers.append((b"Connection", b"close"))
    head = _lines(f"HTTP/1.1 {status} {reason}".encode(), headers)
    return head + text if has_body else head


def chunk(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


LAST_CHUNK = b"0\r\n\r\n"

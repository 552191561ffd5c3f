"""Headers of proxied requests and responses: which are forwarded and which are not. Pure: no I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from urllib.parse import urlsplit

from alcove.apiserver.auth.authenticate import WEBSOCKET_TOKEN_PROTOCOL
from alcove.apiserver.streams.proxy_targets import ProxyPath
from alcove.component import request_ids
from alcove.http.messages import HttpRequest

_HOP_BY_HOP = frozenset(
    (
        *("connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection"),
        *("te", "trailer", "transfer-encoding", "upgrade"),
    )
)
_REQUEST_DROPPED = frozenset(("authorization", "content-length", "expect", *request_ids.ACCEPTED))
"""Not forwarded: the pod must not get the caller's credentials; body length and request id are set anew."""
_REQUEST_DROPPED_PREFIXES = ("impersonate-", "x-remote-", "x-forwarded-")
_RESPONSE_DROPPED = frozenset(("content-length", "content-type", request_ids.HEADER.lower()))
_RESPONSE_DROPPED_PREFIX = "access-control-allow-"
"""CORS headers: a pod must not decide which web pages may call this server."""

_SANDBOX = (b"Content-Security-Policy", b"sandbox allow-forms allow-scripts")
"""A browser that signs in with a client certificate of ring0 would run a page's scripts with the rights of its user; this
gives the page an origin of its own."""

_WITH_BODY = frozenset(("POST", "PUT", "PATCH"))

Header = tuple[bytes, bytes]


def asks_upgrade(request: HttpRequest) -> bool:
    named = _listed(request.headers.get("connection", ""))
    return "upgrade" in named and bool(request.headers.get("upgrade"))


def request_headers(request: HttpRequest, path: ProxyPath) -> dict[str, str]:
    """The headers that are sent to the backend of a path below `proxy`."""
    sent = forwarded_headers(request)
    sent["x-forwarded-uri"] = path.prefix + path.rest
    if not asks_upgrade(request):
        sent["connection"] = "close"  # One connection is one request.
    return sent


def forwarded_headers(request: HttpRequest) -> dict[str, str]:
    """The headers that any backend is sent: without the caller's credentials."""
    received = request.headers
    dropped = _HOP_BY_HOP | _REQUEST_DROPPED | _listed(received.get("connection", ""))
    sent = {
        name: value
        for name, value in received.items()
        if name not in dropped and not name.startswith(_REQUEST_DROPPED_PREFIXES)
    }
    if protocols := sent.pop("sec-websocket-protocol", ""):
        offered = [each.strip() for each in protocols.split(",")]
        if kept := [each for each in offered if not each.startswith(WEBSOCKET_TOKEN_PROTOCOL)]:
            sent["sec-websocket-protocol"] = ", ".join(kept)
    before = received.get("x-forwarded-for", "")
    sent["x-forwarded-for"] = f"{before}, {request.address}" if before else request.address
    sent["x-forwarded-host"] = received.get("host", "")
    sent["x-forwarded-proto"] = "https"
    sent |= request_ids.outgoing()
    if asks_upgrade(request):
        sent |= {"connection": "Upgrade", "upgrade": received["upgrade"]}
    length = request.upload.length if request.upload is not None else len(request.body)
    if length is None:
        sent["transfer-encoding"] = "chunked"
    elif length or request.method in _WITH_BODY:
        sent["content-length"] = str(length)
    return sent


def _unchanged(location: str) -> str:
    return location


def answer_headers(
    fields: Iterable[Header],
    is_upgrade: bool,
    relocate: Callable[[str], str] = _unchanged,
    *,
    is_foreign: bool = False,
) -> list[Header]:
    """The headers that are sent to the client, in the backend's order, with duplicates. `relocate` returns the
    Location that the client is sent. `is_foreign`: the backend is another tenant's than the client, so a browser must not
    take its pages for those of this server."""
    fields = list(fields)
    named = frozenset(
        each
        for name, value in fields
        if name.lower() == b"connection"
        for each in _listed(value.decode("latin-1"))
    )
    dropped = (_HOP_BY_HOP | named | _RESPONSE_DROPPED) - ({"upgrade"} if is_upgrade else set())
    if is_foreign:
        dropped |= {"set-cookie"}
    sent: list[Header] = [(b"Connection", b"Upgrade")] if is_upgrade else []
    sent += [_SANDBOX] if is_foreign else []
    for name, value in fields:
        lower = name.decode("latin-1").lower()
        if lower in dropped or lower.startswith(_RESPONSE_DROPPED_PREFIX):
            continue
        if lower == "location":
            value = relocate(value.decode("latin-1")).encode("latin-1")
        sent.append((name, value))
    return sent


def relocated(location: str, path: ProxyPath, host: str) -> str:
    """The Location of a backend's redirect as the client must see it: paths of the backend stay below the
    proxied one.

    The result is relative, so that it is valid under any prefix by which the client reaches this server."""
    try:
        parts = urlsplit(location)
    except ValueError:
        return location
    if parts.netloc and parts.netloc != host:
        return location
    if not parts.path.startswith("/") and not parts.netloc:
        return location
    if parts.path.startswith(f"{path.prefix}/"):
        return location
    ups = max(path.rest.count("/") - 1, 0)
    target = ("../" * ups or "./") + parts.path.lstrip("/")
    query = f"?{parts.query}" if parts.query else ""
    return target + query + (f"#{parts.fragment}" if parts.fragment else "")


def _listed(value: str) -> frozenset[str]:
    return frozenset(each.strip().lower() for each in value.split(",") if each.strip())


def length_of(headers: Mapping[str, str]) -> int | None:
    """The Content-Length of a response; None if it has none that is valid."""
    text = headers.get("content-length", "")
    if not text.isascii() or not text.isdigit() or "transfer-encoding" in headers:
        return None
    return int(text)

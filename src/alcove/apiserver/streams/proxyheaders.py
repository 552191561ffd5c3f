"""Headers of proxied requests and answers: what ends at this server, and what goes on. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

from alcove.apiserver.streams.proxy_targets import ProxyPath
from alcove.component import request_ids
from alcove.http.messages import HttpRequest

_HOP_BY_HOP = frozenset(
    (
        *("connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection"),
        *("te", "trailer", "transfer-encoding", "upgrade"),
    )
)
_OURS = frozenset(("authorization", "content-length", "expect", *request_ids.ACCEPTED))
"""Who the caller is to this server is no business of the pod's; the body's length is told anew,
and so is the request's id."""
_OURS_PREFIXES = ("impersonate-", "x-remote-", "x-forwarded-")
_ANSWER_DROPPED = frozenset(("content-length", "content-type", request_ids.HEADER.lower()))
_ANSWER_DROPPED_PREFIX = "access-control-allow-"
"""A pod does not decide who may call this server from a browser."""

_WITH_BODY = frozenset(("POST", "PUT", "PATCH"))

Header = tuple[bytes, bytes]


def asks_upgrade(request: HttpRequest) -> bool:
    named = _listed(request.headers.get("connection", ""))
    return "upgrade" in named and bool(request.headers.get("upgrade"))


def request_headers(request: HttpRequest, path: ProxyPath) -> dict[str, str]:
    """What the backend is sent."""
    given = request.headers
    dropped = _HOP_BY_HOP | _OURS | _listed(given.get("connection", ""))
    sent = {
        name: value
        for name, value in given.items()
        if name not in dropped and not name.startswith(_OURS_PREFIXES)
    }
    before = given.get("x-forwarded-for", "")
    sent["x-forwarded-for"] = f"{before}, {request.address}" if before else request.address
    sent["x-forwarded-host"] = given.get("host", "")
    sent["x-forwarded-proto"] = "https"
    sent["x-forwarded-uri"] = path.prefix + path.rest
    sent |= request_ids.outgoing()
    if asks_upgrade(request):
        sent |= {"connection": "Upgrade", "upgrade": given["upgrade"]}
    else:
        sent["connection"] = "close"  # One connection is one request.
    length = request.upload.length if request.upload is not None else len(request.body)
    if length is None:
        sent["transfer-encoding"] = "chunked"
    elif length or request.method in _WITH_BODY:
        sent["content-length"] = str(length)
    return sent


def answer_headers(fields: Iterable[Header], is_upgrade: bool, path: ProxyPath, host: str) -> list[Header]:
    """What the client is told, in the backend's order, each as often as it was said."""
    fields = list(fields)
    named = frozenset(
        each
        for name, value in fields
        if name.lower() == b"connection"
        for each in _listed(value.decode("latin-1"))
    )
    dropped = (_HOP_BY_HOP | named | _ANSWER_DROPPED) - ({"upgrade"} if is_upgrade else set())
    told: list[Header] = [(b"Connection", b"Upgrade")] if is_upgrade else []
    for name, value in fields:
        lower = name.decode("latin-1").lower()
        if lower in dropped or lower.startswith(_ANSWER_DROPPED_PREFIX):
            continue
        if lower == "location":
            value = relocated(value.decode("latin-1"), path, host).encode("latin-1")
        told.append((name, value))
    return told


def relocated(location: str, path: ProxyPath, host: str) -> str:
    """Where a redirect of the backend's leads by way of this server: its own paths stay below the proxied one.

    Relative, so that it holds under whatever prefix the client sees this server."""
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
    """The length that an answer's head promises; None where it does not."""
    text = headers.get("content-length", "")
    if not text.isascii() or not text.isdigit() or "transfer-encoding" in headers:
        return None
    return int(text)

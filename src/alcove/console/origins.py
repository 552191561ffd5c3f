"""Whether a request was made by a page of the console, or may have been caused by a page of another site.

Browsers send cookies and client certificates with requests that other sites cause, so neither proves that the user
wanted a request. A header that only a script of the same origin can add does, as does the Origin of a WebSocket.
"""

from __future__ import annotations

from alcove.http.messages import HttpRequest

HEADER = "x-alcove-console"
"""Other sites' pages cannot send it: browsers ask the server first (CORS), which never allows it."""


def refusal(request: HttpRequest, scheme: str) -> str:
    """Why another site may have caused the request; empty if it cannot be. `scheme` is how this server is reached."""
    headers = request.headers
    site = headers.get("sec-fetch-site", "same-origin")
    if site != "same-origin":
        return "the request comes from a page of another site"
    origin = headers.get("origin")
    if origin is not None and origin.lower() != f"{scheme}://{headers.get('host', '').lower()}":
        return "the request comes from a page of another site"
    if is_websocket(request):
        # A browser cannot add headers to it, and always sends the Origin.
        return "" if origin is not None else "a WebSocket of the console needs the header Origin"
    return "" if HEADER in headers else f"requests of the console need the header {HEADER}"


def is_websocket(request: HttpRequest) -> bool:
    return request.headers.get("upgrade", "").strip().lower() == "websocket"


def cookie(request: HttpRequest, name: str) -> str:
    """The cookie's value; empty if there is none, or more than one: another may have been planted."""
    values = [
        value.strip()
        for each in request.headers.get("cookie", "").split(";")
        for key, separator, value in [each.partition("=")]
        if separator and key.strip() == name
    ]
    return values[0] if len(values) == 1 else ""

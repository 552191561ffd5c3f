"""The console's static files: read once, when the first is asked for, and kept in memory with their compressed forms.

A path is looked up in a dictionary of the files that exist, so no path leads out of the directory. Each response has
the headers that let a page run the console's own scripts and nothing else, and be framed by no other page.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
from collections.abc import Coroutine, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from alcove.http.messages import HttpRequest, HttpResponse

ROOT = "/console/"
API = "/console/k8s"
"""Before a path of the API: the request is sent with the user's credential."""
SESSION = "/console/session"
OIDC = "/console/oidc"
"""Where signing in at an identity provider begins, and below which browsers come back from one."""
STATIC = Path(__file__).parent / "static"
INDEX = "index.html"

CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        # Text never becomes HTML or script: assigning a string to innerHTML and the like fails in the browser.
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
SECURITY_HEADERS: tuple[tuple[bytes, bytes], ...] = (
    (b"Content-Security-Policy", CONTENT_SECURITY_POLICY.encode()),
    (b"X-Content-Type-Options", b"nosniff"),
    (b"X-Frame-Options", b"DENY"),
    (b"Referrer-Policy", b"no-referrer"),
    (b"Cross-Origin-Opener-Policy", b"same-origin"),
    (b"Cross-Origin-Resource-Policy", b"same-origin"),
)

_TYPES = {
    ".html": b"text/html; charset=utf-8",
    ".js": b"text/javascript; charset=utf-8",
    ".css": b"text/css; charset=utf-8",
    ".svg": b"image/svg+xml",
}
_COMPRESSION_LEVEL = 6
_TEXT = b"text/plain; charset=utf-8"


class StaticFile(Struct, frozen=True):
    """The server's own `Cache-Control: no-cache` lets browsers keep it, and ask by its ETag whether it is still the same."""

    body: bytes
    compressed: bytes
    content_type: bytes
    etag: str


class ConsoleFiles:
    def __init__(self, directory: Path = STATIC) -> None:
        self._directory = directory
        self._files: Mapping[str, StaticFile] | None = None

    def answer(self, request: HttpRequest) -> HttpResponse | Coroutine[Any, Any, HttpResponse]:
        """The file of a path below ROOT. The first request reads and compresses all of them, in a thread."""
        if self._files is None:
            return self._load_and_answer(request)
        return _answer(self._files, request)

    async def _load_and_answer(self, request: HttpRequest) -> HttpResponse:
        files = self._files = await asyncio.to_thread(load, self._directory)
        return _answer(files, request)


def load(directory: Path) -> dict[str, StaticFile]:
    """The files of the directory by their names."""
    return {
        path.name: _static_file(path.name, path.read_bytes())
        for path in sorted(directory.iterdir())
        if path.suffix in _TYPES and path.is_file()
    }


def plain(status: int, text: str) -> HttpResponse:
    return HttpResponse(status, f"{text}\n".encode(), _TEXT, [*SECURITY_HEADERS])


def _static_file(name: str, body: bytes) -> StaticFile:
    return StaticFile(
        body,
        gzip.compress(body, _COMPRESSION_LEVEL, mtime=0),
        _TYPES[Path(name).suffix],
        f'"{hashlib.sha256(body).hexdigest()[:32]}"',
    )


def _answer(files: Mapping[str, StaticFile], request: HttpRequest) -> HttpResponse:
    if request.method not in ("GET", "HEAD"):
        return plain(405, "this path can only be read")
    found = files.get(request.path.removeprefix(ROOT) or INDEX)
    if found is None:
        return plain(404, "the console has no such file")
    headers = [
        *SECURITY_HEADERS,
        (b"ETag", found.etag.encode()),
        (b"Vary", b"Accept-Encoding"),
    ]
    if found.etag in _listed(request.headers.get("if-none-match", "")):
        response = HttpResponse(304, b"", found.content_type, headers)
        response.length = -1
        return response
    body = found.body
    if "gzip" in _listed(request.headers.get("accept-encoding", "")):
        body = found.compressed
        headers.append((b"Content-Encoding", b"gzip"))
    return HttpResponse(200, body, found.content_type, headers)


def _listed(value: str) -> list[str]:
    """The values of a list in a header; those with a quality, as in `gzip;q=0`, do not match."""
    return [each.strip() for each in value.split(",")]

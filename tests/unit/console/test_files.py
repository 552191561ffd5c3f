"""The console's files: what is served, with which headers, and what is not."""

import asyncio
import gzip
from pathlib import Path

import pytest

from alcove.console.files import ConsoleFiles
from alcove.http.messages import HttpRequest, HttpResponse


@pytest.fixture
def files(tmp_path: Path) -> ConsoleFiles:
    directory = tmp_path / "static"
    directory.mkdir()
    (directory / "index.html").write_text("<!doctype html>" + " " * 1000)
    (directory / "app.js").write_text("run()")
    (directory / "sources.sha256").write_text("not served")
    (tmp_path / "secret.html").write_text("secret")
    return ConsoleFiles(directory)


async def get(files: ConsoleFiles, path: str, method: str = "GET", **headers: str) -> HttpResponse:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    answer = files.answer(HttpRequest(method, path, "", named))
    return await answer if asyncio.iscoroutine(answer) else answer


def header(response: HttpResponse, name: bytes) -> bytes:
    return dict(response.headers or ()).get(name, b"")


async def test_pages_run_only_own_scripts_and_are_framed_by_nobody(files: ConsoleFiles) -> None:
    for path in ("/console/", "/console/app.js", "/console/nothing"):
        response = await get(files, path)
        policy = header(response, b"Content-Security-Policy")
        assert b"default-src 'none'" in policy and b"frame-ancestors 'none'" in policy
        assert b"unsafe" not in policy
        assert header(response, b"X-Content-Type-Options") == b"nosniff"


async def test_files_are_sent_compressed_to_those_who_accept_it(files: ConsoleFiles) -> None:
    plain = await get(files, "/console/index.html")
    packed = await get(files, "/console/", accept_encoding="br, gzip")
    refusing = await get(files, "/console/", accept_encoding="gzip;q=0")
    assert isinstance(plain.body, bytes) and isinstance(packed.body, bytes)
    assert header(packed, b"Content-Encoding") == b"gzip" and gzip.decompress(packed.body) == plain.body
    assert refusing.body == plain.body and not header(refusing, b"Content-Encoding")


async def test_unchanged_files_are_not_sent_again(files: ConsoleFiles) -> None:
    first = await get(files, "/console/app.js")
    etag = header(first, b"ETag").decode()
    again = await get(files, "/console/app.js", if_none_match=f'"other", {etag}')
    assert again.status == 304 and again.body == b"" and again.length == -1


@pytest.mark.parametrize(
    "path",
    (
        "/console/../secret.html",
        "/console/%2e%2e/secret.html",
        "/console/..%2fsecret.html",
        "/console//secret.html",
        "/console/./index.html",
        "/console/static/index.html",
        "/console/sources.sha256",
        "/console/index.html/",
        "/console/index.html%00.js",
        "/console/\x00",
    ),
)
async def test_no_path_leads_to_another_file(files: ConsoleFiles, path: str) -> None:
    response = await get(files, path)
    assert response.status == 404 and b"secret" not in bytes(response.body)  # type: ignore[arg-type]


async def test_files_can_only_be_read(files: ConsoleFiles) -> None:
    assert (await get(files, "/console/app.js", "POST")).status == 405
    assert (await get(files, "/console/app.js", "HEAD")).status == 200

"""Large bodies: read only for requests that are authenticated and allowed, and on request."""

import socket
import ssl

import pytest

from alcove.cli.connection import load
from alcove.http.limits import LIMITS
from alcove.testing.server import Caller, LocalServer

MAPS = "/api/v1/namespaces/default/configmaps"
SIZE = 1 << 20


def config_map(name: str, size: int = SIZE - 1_000) -> dict[str, object]:
    return {"metadata": {"name": name}, "data": {"a": "x" * size}}


def connected(server: LocalServer) -> ssl.SSLSocket:
    host, _, port = load(server.admin_kubeconfig).server.removeprefix("https://").partition(":")
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context.wrap_socket(socket.create_connection((host, int(port)), timeout=60))


def head(*lines: str) -> bytes:
    return "\r\n".join([f"POST {MAPS} HTTP/1.1", "Host: a", *lines, "", ""]).encode()


def test_a_large_object_is_stored(tenant: Caller) -> None:
    assert tenant.post(MAPS, config_map("large")).status == 201
    assert len(tenant.get(f"{MAPS}/large").json["data"]["a"]) == SIZE - 1_000


@pytest.mark.parametrize("length", [f"Content-Length: {SIZE}", "Transfer-Encoding: chunked"])
def test_a_stranger_is_answered_without_sending_a_body(server: LocalServer, length: str) -> None:
    with connected(server) as stranger:
        sent = head("Authorization: Bearer none", length)
        if "chunked" in length:
            sent += b"%x\r\n" % SIZE + b"x" * (LIMITS.early_body_bytes_max + 1)
        stranger.sendall(sent)
        assert stranger.recv(1_000).startswith(b"HTTP/1.1 401 ")


def test_a_stranger_is_not_told_to_continue(server: LocalServer) -> None:
    with connected(server) as stranger:
        stranger.sendall(head(f"Content-Length: {SIZE}", "Expect: 100-continue"))
        answer = b""
        while data := stranger.recv(1_000):
            answer += data
        assert answer.startswith(b"HTTP/1.1 401 ") and b"Connection: close" in answer


def test_a_forbidden_request_is_answered_before_its_body(tenant: Caller) -> None:
    path = MAPS.replace("/namespaces", "/tenants/system/namespaces")
    # A body that was read would be rejected as malformed.
    assert tenant.request("POST", path, b"{" * SIZE).status == 403


def test_a_body_that_is_too_large_is_refused(tenant: Caller) -> None:
    assert tenant.request("POST", MAPS, b" " * (LIMITS.body_bytes_max + 1)).status == 413

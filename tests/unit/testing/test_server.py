"""A caller of an API server keeps its connection, and does not mind that the server closes it in between."""

import contextlib
import socket
import ssl
import threading
from pathlib import Path

import pytest

from alcove.testing.certificates import self_signed
from alcove.testing.server import Caller

ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"
KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: it
contexts: [{{name: it, context: {{cluster: it, user: it}}}}]
clusters: [{{name: it, cluster: {{server: "https://localhost:{port}", certificate-authority: {ca}}}}}]
users: [{{name: it, user: {{token: secret}}}}]
"""


def answer_once_each(listener: socket.socket, context: ssl.SSLContext) -> None:
    """Every connection is closed after its first answer, though nobody said that it would be."""
    with contextlib.suppress(OSError):
        while True:
            with context.wrap_socket(listener.accept()[0], server_side=True) as connection:
                received = b""
                while not received.endswith(b"{}") and (part := connection.recv(65536)):
                    received += part
                connection.sendall(ANSWER)


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Path:
    certificate, key = self_signed("localhost")
    (tmp_path / "pair.pem").write_bytes(certificate + key)
    (tmp_path / "ca.pem").write_bytes(certificate)
    return tmp_path / "kubeconfig"


def test_a_kept_connection_that_was_closed_is_made_anew(kubeconfig: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(kubeconfig.parent / "pair.pem")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=answer_once_each, args=(listener, context), daemon=True).start()
        port = listener.getsockname()[1]
        kubeconfig.write_text(KUBECONFIG.format(port=port, ca=kubeconfig.parent / "ca.pem"))
        caller = Caller(kubeconfig, token="secret")
        for _ in range(20):
            assert caller.post("/api/v1/namespaces", {}).status == 200
        caller.close()

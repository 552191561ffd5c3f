"""An API server that cannot read its store yet answers, and serves the same port when it can."""

import fcntl
import http.client
import ssl
import threading
from pathlib import Path

import pytest

from alcove.testing.server import LocalServer, wait_until


def status_of(port: int, path: str) -> int:
    """The status of a request of a stranger; 0 if nobody listens."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    connection = http.client.HTTPSConnection("127.0.0.1", port, context=context, timeout=60)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    except OSError:
        return 0
    finally:
        connection.close()


@pytest.mark.parametrize("workers", [1, 2])
def test_a_server_answers_before_it_has_read_its_store(tmp_path: Path, workers: int) -> None:
    server = LocalServer(tmp_path, "--workers", str(workers))
    port = server.address[1]
    with (tmp_path / "store.db.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # As a server that was just killed and finishes its commit.
        starting = threading.Thread(target=server.start)
        starting.start()
        wait_until(lambda: status_of(port, "/livez") == 200)
        assert status_of(port, "/readyz") == 500
        assert status_of(port, "/api/v1/namespaces") == 503
    starting.join()
    try:
        assert status_of(port, "/readyz") == 200
        assert status_of(port, "/api/v1/namespaces") == 401
        assert server.system.get("/api/v1/namespaces/default").status == 200
    finally:
        server.stop()

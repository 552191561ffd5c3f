import socket

import pytest

from alcove.processes.worker_pool import reserved_port


def listening(port: int, *, is_shared: bool) -> socket.socket:
    return socket.create_server(("127.0.0.1", port), reuse_port=is_shared)


def test_workers_share_a_reserved_port_and_others_do_not_get_it() -> None:
    with reserved_port(["127.0.0.1", "::1"], 0) as port:
        with listening(port, is_shared=True), listening(port, is_shared=True):
            socket.create_connection(("127.0.0.1", port), timeout=60).close()
            with pytest.raises(OSError):
                listening(port, is_shared=False)
        # What is only reserved gets no connections.
        with pytest.raises(OSError):
            socket.create_connection(("127.0.0.1", port), timeout=60)


def test_a_port_of_another_server_is_refused_even_if_that_would_share_it() -> None:
    with (
        listening(0, is_shared=True) as other,
        pytest.raises(OSError),
        reserved_port(["127.0.0.1"], other.getsockname()[1]),
    ):
        pass

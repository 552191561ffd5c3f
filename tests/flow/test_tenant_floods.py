"""A tenant's connections, watches and bytes are its own loss, and another tenant is served meanwhile."""

import contextlib
import http.client
import socket
import ssl
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import orjson
import pytest

from alcove.cli.connection import load
from alcove.testing.server import Caller, LocalServer, wait_until

MAPS = "/api/v1/namespaces/default/configmaps"
CONNECTIONS_MAX, WATCHES_MAX = 12, 6
_NUMBERS = count()
MIB = 1 << 20


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServer]:
    limits = {
        "--tenant-connections-max": CONNECTIONS_MAX,
        "--tenant-watches-max": WATCHES_MAX,
        "--tenant-buffer-mib-max": 12,
    }
    options = [part for pair in limits.items() for part in map(str, pair)]
    with LocalServer(tmp_path_factory.mktemp("floods"), *options) as server:
        server.make_tenant("quiet")
        yield server


@pytest.fixture
def mallory(server: LocalServer) -> Caller:
    """A tenant of its own for each test: the server may notice late that connections of the last one ended."""
    return server.make_tenant(f"mallory-{next(_NUMBERS)}")


@pytest.fixture
def quiet(server: LocalServer) -> Iterator[Caller]:
    """Another tenant: it can read and watch before and after each test."""
    caller = server.as_tenant("quiet")
    yield caller
    is_served(caller)


def is_served(caller: Caller) -> None:
    newcomer = Caller(caller.kubeconfig)
    for each in (caller, newcomer):
        answer = each.get(MAPS)
        assert answer.status == 200, answer.body
    newcomer.close()
    watch = Watch(caller)
    assert watch.response.status == 200
    watch.close()


class Watch:
    """A watch on a connection of its own, whose client reads only on request."""

    def __init__(self, caller: Caller) -> None:
        self._connection = http.client.HTTPConnection("localhost")
        self._connection.sock = connected(caller)
        self._connection.request("GET", f"{MAPS}?watch=true")
        self.response = self._connection.getresponse()

    def events(self) -> Iterator[tuple[str, str]]:
        """Types and reasons of events, until the server ends the watch."""
        with contextlib.suppress(http.client.IncompleteRead, ConnectionError):
            while line := self.response.readline():
                event = orjson.loads(line)
                yield event["type"], event["object"].get("reason", "")

    def close(self) -> None:
        self._connection.close()


def config_map(name: str, size: int) -> dict[str, object]:
    return {"metadata": {"name": name}, "data": {"a": "x" * size}}


def connected(caller: Caller, *, anonymous: bool = False) -> ssl.SSLSocket:
    user = load(caller.kubeconfig)
    host, _, port = user.server.removeprefix("https://").partition("/")[0].partition(":")
    context = ssl.create_default_context(cadata=user.ca_pem.decode())
    if not anonymous:
        context.load_cert_chain(Path(caller.kubeconfig).with_suffix(".pem"))
    sock = socket.socket()
    # What the kernel buffers is no concern of the server.
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 10)
    sock.settimeout(20)
    sock.connect((host, int(port)))
    return context.wrap_socket(sock, server_hostname=host)


def test_one_watch_too_many_is_refused_with_advice(mallory: Caller, quiet: Caller) -> None:
    watches = [Watch(mallory) for _ in range(WATCHES_MAX)]
    answer = mallory.get(f"{MAPS}?watch=true")
    assert (answer.status, answer.headers["retry-after"]) == (429, "5")
    assert answer.json["message"].endswith(f"{WATCHES_MAX} watches open; close some, or try again later")
    is_served(quiet)
    watches.pop().close()
    wait_until(lambda: mallory.get(f"{MAPS}?watch=true&timeoutSeconds=1").status == 200)
    for each in watches:
        each.close()


def test_one_connection_too_many_is_refused_and_only_for_that_tenant(mallory: Caller, quiet: Caller) -> None:
    assert mallory.get(MAPS).status == 200
    held = [connected(mallory) for _ in range(2 * CONNECTIONS_MAX)]
    is_served(quiet)
    assert mallory.get(MAPS).status == 200  # Its first connection is open still.

    statuses = []
    for sock in held:
        sock.sendall(f"GET {MAPS} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
        statuses.append(sock.recv(12)[-3:])
    assert statuses == [b"200"] * (CONNECTIONS_MAX - 1) + [b"429"] * (CONNECTIONS_MAX + 1)
    for sock in held:
        sock.close()


def test_a_token_on_one_connection_too_many_is_told_so(
    server: LocalServer, mallory: Caller, quiet: Caller
) -> None:
    path = "/api/v1/namespaces/default/serviceaccounts/default/token"
    token = mallory.post(path, {"spec": {}}).json["status"]["token"]
    held = [connected(mallory) for _ in range(CONNECTIONS_MAX)]
    pod = server.anonymous(token)
    answer = pod.get(MAPS)
    assert answer.status == 429 and "connections open to this server" in answer.json["message"]
    is_served(quiet)
    for sock in held:
        sock.close()
    wait_until(lambda: pod.get(MAPS).status == 403)
    pod.close()


def test_slow_bodies_take_neither_seats_nor_anybodys_memory(mallory: Caller, quiet: Caller) -> None:
    head = f"POST {MAPS} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nExpect: 100-continue\r\n"
    slow = [connected(mallory) for _ in range(8)]
    for sock in slow:
        sock.sendall(f"{head}Content-Length: {2 * MIB}\r\n\r\n".encode())
    # There is room for six.
    assert sorted(sock.recv(12) for sock in slow) == [b"HTTP/1.1 100"] * 6 + [b"HTTP/1.1 429"] * 2
    refused = mallory.post(MAPS, config_map("no-room", MIB))
    assert refused.status == 429 and "buffers too many bytes" in refused.json["message"]
    assert mallory.get("/api/v1/namespaces/default").status == 200  # Only what needs memory has to wait.
    assert quiet.post(MAPS, config_map("large", MIB)).status == 201
    assert quiet.delete(f"{MAPS}/large").status == 200
    for sock in slow:
        sock.close()
    wait_until(lambda: mallory.post(MAPS, config_map("room", MIB)).status == 201)


def test_a_watch_that_is_not_read_expires_and_only_that_one(mallory: Caller, quiet: Caller) -> None:
    slow, other = Watch(mallory), Watch(quiet)
    for number in range(100):
        assert mallory.post(MAPS, config_map(f"m{number}", 200_000)).status == 201
    seen = list(slow.events())
    assert len(seen) < 100 and seen[-1] == ("ERROR", "Expired")
    slow.close()
    assert quiet.post(MAPS, config_map("seen", 10)).status == 201
    events = other.events()
    assert next(events) == ("ADDED", "")
    other.close()
    assert quiet.delete(f"{MAPS}/seen").status == 200


def test_large_answers_that_are_not_read_end_in_429(mallory: Caller, quiet: Caller) -> None:
    # So large that two of them are beyond the bound, even when the kernel has taken 4 MiB of each.
    for number in range(12):
        assert mallory.post(MAPS, config_map(f"m{number}", MIB - 1_000)).status == 201
    unread = [connected(mallory) for _ in range(8)]
    for sock in unread:
        sock.sendall(f"GET {MAPS} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
    answer = wait_until(lambda: (made := mallory.get(MAPS)).status == 429 and made)
    assert answer.headers["retry-after"] == "1"
    is_served(quiet)
    for sock in unread:
        sock.close()
    wait_until(lambda: mallory.get(MAPS).status == 200)


def test_a_stranger_who_floods_the_address_of_others_does_not_shut_them_out(quiet: Caller) -> None:
    strangers = [socket.create_connection(address_of(quiet)) for _ in range(40)]
    strangers += [connected(quiet, anonymous=True) for _ in range(10)]
    is_served(quiet)
    for sock in strangers:
        sock.close()


def address_of(caller: Caller) -> tuple[str, int]:
    host, _, port = load(caller.kubeconfig).server.removeprefix("https://").partition("/")[0].partition(":")
    return host, int(port)

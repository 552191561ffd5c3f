"""Handshakes with webhooks of hostile tenants: costly certificates, endless messages, large CA bundles."""

import asyncio
import base64
import datetime
import ipaddress
import math
import secrets
import socket
import ssl
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID
from msgspec import Struct

from alcove.api import destinations
from alcove.api.ids import TenantId
from alcove.api.objects import Object
from alcove.apiserver.outbound.dialer import DirectDialer
from alcove.apiserver.outbound.errors import WebhookError
from alcove.apiserver.outbound.handshakes import CA_BUNDLE_BYTES_MAX
from alcove.apiserver.outbound.webhooks import Webhooks
from alcove.testing.memory_reader import MemoryReader
from alcove.testing.webhook_server import WebhookServer

ACME, OTHER = TenantId("acme"), TenantId("other")
CHAIN_LENGTH = 40
PEM = serialization.Encoding.PEM


class HostileServer(Struct, frozen=True):
    port: int
    authority: str

    def client(self) -> Object:
        return {"url": f"https://127.0.0.1:{self.port}/", "caBundle": self.authority}


def costly_key() -> rsa.RSAPrivateKey:
    """A key whose public exponent is as long as its modulus: a verification costs as much as a signature, and
    more."""
    numbers = rsa.generate_private_key(65537, 2048).private_numbers()
    p, q = numbers.p, numbers.q
    totient = (p - 1) * (q - 1)
    e = 2
    while math.gcd(e, totient) != 1:
        e = secrets.randbits(2000) | 1 | 1 << 1999
    d = pow(e, -1, totient)
    public = rsa.RSAPublicNumbers(e, p * q)
    return rsa.RSAPrivateNumbers(p, q, d, d % (p - 1), d % (q - 1), pow(q, -1, p), public).private_key()


def certificate(number: int, key: rsa.RSAPrivateKey) -> x509.Certificate:
    """The certificate of that number in a chain: 0 is the root, the last one the server's."""

    def name(of: int) -> x509.Name:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"c{of}")])

    now, day = datetime.datetime.now(datetime.UTC), datetime.timedelta(days=1)
    builder = x509.CertificateBuilder(
        name(max(0, number - 1)), name(number), key.public_key(), number + 1, now - day, now + day
    )
    if number == CHAIN_LENGTH:
        address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
        builder = builder.add_extension(x509.SubjectAlternativeName([address]), critical=False)
    else:
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    return builder.sign(key, hashes.SHA256())


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostileServer]:
    """A server with a long chain of costly certificates. It closes connections after the handshake."""
    key = costly_key()
    chain = [certificate(number, key) for number in range(CHAIN_LENGTH + 1)]
    pair = tmp_path_factory.mktemp("hostile") / "pair.pem"
    private = key.private_bytes(PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    pair.write_bytes(b"".join(each.public_bytes(PEM) for each in reversed(chain[1:])) + private)
    with serving(pair) as port:
        yield HostileServer(port, base64.b64encode(chain[0].public_bytes(PEM)).decode())


@contextmanager
def serving(pair: Path) -> Iterator[int]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair)
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    sock, _ = listener.accept()
                    with suppress(OSError), context.wrap_socket(sock, server_side=True) as tls:
                        tls.recv(1)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield int(listener.getsockname()[1])
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


@pytest.fixture
async def calls() -> AsyncIterator[Webhooks]:
    webhooks = Webhooks(DirectDialer(MemoryReader(), destinations.networks(["127.0.0.0/8"])))
    yield webhooks
    webhooks.close()


async def fails(calls: Webhooks, client: Object) -> str:
    with pytest.raises(WebhookError) as raised:
        await calls.call(ACME, client, b"{}", timeout_seconds=60)
    return str(raised.value)


async def test_costly_certificates_are_not_verified_on_the_event_loop(
    calls: Webhooks, hostile: HostileServer
) -> None:
    client_context = ssl.create_default_context(cadata=base64.b64decode(hostile.authority).decode())
    started = time.thread_time()
    with (
        socket.create_connection(("127.0.0.1", hostile.port)) as sock,
        client_context.wrap_socket(sock, server_hostname="127.0.0.1"),
    ):
        cost = time.thread_time() - started
    started = time.thread_time()
    for _ in range(2):
        assert "closed" in await fails(calls, hostile.client()), "the handshake itself succeeds"
    assert time.thread_time() - started < cost, "two calls cost the loop's thread less than one handshake"


async def test_costly_handshakes_of_a_tenant_do_not_delay_another(
    calls: Webhooks, hostile: HostileServer
) -> None:
    costly = [asyncio.create_task(fails(calls, hostile.client())) for _ in range(4)]
    with WebhookServer(lambda _path, review: review) as server:
        assert await calls.call(OTHER, server.client(), b"{}", timeout_seconds=60) == b"{}"
    assert not all(each.done() for each in costly)
    for each in costly:
        assert "closed" in await each


async def test_a_handshake_without_end_fails(calls: Webhooks) -> None:
    """A client ignores requests to begin a handshake while it is in one."""

    async def serve(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while True:
                writer.write((b"\x16\x03\x03\x00\x04" + bytes(4)) * 1000)
                await writer.drain()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        message = await fails(calls, {"url": f"https://127.0.0.1:{port}/"})
        assert "handshake has too many messages" in message


async def test_a_large_ca_bundle_is_refused(calls: Webhooks) -> None:
    with WebhookServer(lambda _path, review: review) as server:
        pem = base64.b64decode(server.authority)
        bundle = pem * (CA_BUNDLE_BYTES_MAX // len(pem))
        client = server.client() | {"caBundle": base64.b64encode(bundle).decode()}
        assert await calls.call(ACME, client, b"{}", timeout_seconds=60) == b"{}"
        client["caBundle"] = base64.b64encode(bundle + pem).decode()
        assert f"caBundle has more than {CA_BUNDLE_BYTES_MAX} bytes" in await fails(calls, client)


async def test_a_large_review_and_its_response_pass(calls: Webhooks) -> None:
    body = b'{"a":"' + b"x" * (2 << 20) + b'"}'
    with WebhookServer(lambda _path, review: review) as server:
        assert await calls.call(ACME, server.client(), body, timeout_seconds=60) == body

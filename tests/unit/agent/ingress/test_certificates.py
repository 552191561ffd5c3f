"""Certificates by server name, and which ones are rejected."""

import asyncio
import socket
import ssl
import sys
import time
from collections.abc import Callable
from functools import cache

import pytest
import uvloop
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed448, ed25519, rsa
from cryptography.hazmat.primitives.asymmetric.types import CertificateIssuerPrivateKeyTypes

from alcove.agent.ingress.certificates import (
    CHAIN_BYTES_MAX,
    IngressCertificatePair,
    IngressCertificates,
    InvalidKeyPair,
    context_of,
)
from alcove.agent.ingress.limits import IngressLimits
from alcove.agent.ingress.routing_table import IngressTarget, TenantIngresses, compiled
from alcove.agent.ingress.server import IngressServer
from alcove.api.ids import TenantId
from alcove.client.keys import HOME, TenantKey
from alcove.component.loop_threads import run_in_thread
from alcove.network.ingress.ingress_spec import DesiredIngress, IngressBackend, IngressRule, PathType
from alcove.testing.certificates import self_signed
from alcove.testing.ingress import granting

BLUE, RED = TenantId("blue"), TenantId("red")
GRANTS = granting({"*.example": BLUE, "bank.example": RED})


@cache
def pair(*hosts: str) -> IngressCertificatePair:
    return IngressCertificatePair(*self_signed(*hosts))


def test_what_does_not_belong_together_is_refused() -> None:
    one, other = pair("a.example"), pair("b.example")
    with pytest.raises(InvalidKeyPair):
        context_of(IngressCertificatePair(one.chain, other.key))
    with pytest.raises(InvalidKeyPair):
        context_of(IngressCertificatePair(b"nonsense", one.key))
    with pytest.raises(InvalidKeyPair):
        context_of(IngressCertificatePair(b"", b""))


KEYS: dict[str, tuple[Callable[[], CertificateIssuerPrivateKeyTypes], bool]] = {
    "P-256": (lambda: ec.generate_private_key(ec.SECP256R1()), True),
    "P-384": (lambda: ec.generate_private_key(ec.SECP384R1()), True),
    "P-521": (lambda: ec.generate_private_key(ec.SECP521R1()), False),
    "secp256k1": (lambda: ec.generate_private_key(ec.SECP256K1()), False),
    "Ed25519": (ed25519.Ed25519PrivateKey.generate, True),
    "Ed448": (ed448.Ed448PrivateKey.generate, False),
    "DSA": (lambda: dsa.generate_private_key(1024), False),
    "RSA 1024": (lambda: rsa.generate_private_key(65537, 1024), False),
    "RSA 2048": (lambda: rsa.generate_private_key(65537, 2048), True),
    "RSA 4104": (lambda: rsa.generate_private_key(65537, 4104), False),
}


@pytest.mark.parametrize("kind", KEYS)
def test_only_keys_with_quick_handshakes_are_accepted(kind: str) -> None:
    make, is_accepted = KEYS[kind]
    try:
        context_of(IngressCertificatePair(*self_signed("a.example", key=make())))
    except InvalidKeyPair as error:
        assert not is_accepted
        assert "the key must be RSA with 2048 to 4096 bits" in str(error)
    else:
        assert is_accepted


def test_long_chains_and_keys_are_refused_unread() -> None:
    one = pair("a.example")
    many = IngressCertificatePair(one.chain * (CHAIN_BYTES_MAX // len(one.chain) + 1), one.key)
    with pytest.raises(InvalidKeyPair, match="the certificate chain has more than 65536 bytes"):
        context_of(many)
    with pytest.raises(InvalidKeyPair, match="the key has more than 8192 bytes"):
        context_of(IngressCertificatePair(one.chain, b"x" * 9000))


HANDSHAKES = 40
FLOOD = f"""
import socket, ssl, sys
context = ssl.create_default_context()
context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
for _ in range({HANDSHAKES}):
    with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as plain:
        context.wrap_socket(plain, server_hostname="a.example").close()
"""


async def test_a_flood_of_handshakes_takes_no_time_of_the_agents_loop() -> None:
    """Measured in CPU time of the loop's thread, which other load on the machine does not change."""
    certificates, server = IngressCertificates(GRANTS), IngressServer(nowhere)
    key = rsa.generate_private_key(65537, 4096)
    assert not certificates.set(
        {(BLUE, "a.example"): IngressCertificatePair(*self_signed("a.example", key=key))}
    )
    listening = socket.create_server(("127.0.0.1", 0))
    port = listening.getsockname()[1]
    running = asyncio.create_task(
        run_in_thread("ingress", lambda: server.run([], [listening], certificates.context))
    )
    began = time.thread_time()
    flood = await asyncio.create_subprocess_exec(sys.executable, "-c", FLOOD, str(port))
    assert await flood.wait() == 0
    used = time.thread_time() - began
    running.cancel()
    await asyncio.wait([running])
    assert used < HANDSHAKES * 0.001, "a signature alone takes some milliseconds"


async def test_connections_without_a_handshake_are_counted() -> None:
    limits = IngressLimits(connections_per_client_max=3)
    certificates, server = IngressCertificates(GRANTS), IngressServer(nowhere, limits)
    listening = socket.create_server(("127.0.0.1", 0))
    running = asyncio.create_task(server.run([], [listening], certificates.context))
    streams = [await asyncio.open_connection(*listening.getsockname()) for _ in range(4)]
    async with asyncio.timeout(60):
        assert await streams[-1][0].read() == b"", "the fourth is closed, and the others are not"
    assert not any(reader.at_eof() for reader, _ in streams[:3])
    streams[0][1].close()
    async with asyncio.timeout(60):
        while True:
            reader, writer = await asyncio.open_connection(*listening.getsockname())
            try:
                async with asyncio.timeout(0.2):
                    await reader.read()
            except TimeoutError:
                break  # It stays open: there is room again.
            finally:
                writer.close()
    running.cancel()
    await asyncio.wait([running])
    for _, writer in streams:
        writer.close()


async def nowhere(_space: TenantKey, _network: str, _address: str, _port: int) -> socket.socket:
    raise ConnectionRefusedError


def test_a_bad_pair_costs_its_host_alone() -> None:
    made = IngressCertificates(GRANTS)
    faults = made.set(
        {(BLUE, "a.example"): pair("a.example"), (BLUE, "b.example"): IngressCertificatePair(b"x", b"y")}
    )
    assert list(faults) == [(BLUE, "b.example")]
    assert made.find("a.example") is not None
    assert made.find("b.example") is None


def test_a_star_covers_one_label_and_what_stays_is_kept() -> None:
    made = IngressCertificates(GRANTS)
    made.set({(BLUE, "*.example"): pair("*.example")})
    before = made.find("x.example")
    assert before is not None
    assert made.find("y.x.example") is None
    made.set({(BLUE, "*.example"): pair("*.example"), (BLUE, "a.example"): pair("a.example")})
    assert made.find("x.example") is before
    assert made.find("a.example") is not before
    made.set({})
    assert made.find("x.example") is None


def test_a_name_of_another_tenant_is_not_served_with_a_wildcard_certificate() -> None:
    made = IngressCertificates(GRANTS)
    made.set({(BLUE, "*.example"): pair("*.example")})
    assert made.find("bank.example") is None
    made.set({(BLUE, "*.example"): pair("*.example"), (RED, "bank.example"): pair("bank.example")})
    assert made.find("bank.example") is not made.find("x.example")


async def ask(port: int, name: str | None, host: str, trusted: IngressCertificatePair) -> bytes:
    client = ssl.create_default_context(cadata=trusted.chain.decode())
    client.check_hostname = name is not None
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client, server_hostname=name or "")
    writer.write(f"GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
    async with asyncio.timeout(60):
        answer = await reader.read()
    writer.close()
    return answer


async def test_each_name_is_served_with_its_own_certificate_and_nothing_else_is() -> None:
    seen: list[bytes] = []

    async def backend(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
        writer.close()

    async def dial(_space: TenantKey, _network: str, address: str, port: int) -> socket.socket:
        sock = socket.socket()
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, (address, port))
        return sock

    behind = await asyncio.start_server(backend, "127.0.0.1", 0)
    web, tenant_key = IngressBackend("web", 80), TenantKey(HOME, TenantId("blue"))
    hosts = ("a.example", "b.example")
    rules = tuple(IngressRule(host, "/", PathType.PREFIX, web) for host in hosts)
    target = IngressTarget(tenant_key, "default", (behind.sockets[0].getsockname()[:2],))
    tenant = TenantIngresses(
        tenant_key,
        (DesiredIngress("2026", "u", "default", "i", "default", rules, None, ()),),
        {("default", "default", web): target},
    )
    certificates, server = IngressCertificates(GRANTS), IngressServer(dial)
    certificates.set({(BLUE, host): pair(host) for host in hosts})
    server.table = compiled([tenant], GRANTS)
    listening = socket.create_server(("127.0.0.1", 0))
    port = listening.getsockname()[1]
    running = asyncio.create_task(server.run([], [listening], certificates.context))
    try:
        for host in hosts:
            assert (await ask(port, host, host, pair(host))).startswith(b"HTTP/1.1 200")
        assert b"X-Forwarded-Proto: https" in seen[0]
        crossed = await ask(port, "a.example", "b.example", pair("a.example"))
        assert crossed.startswith(b"HTTP/1.1 421"), (
            "another name's pages are not to be had by this one's certificate"
        )
        for unknown in ("c.example", None):
            with pytest.raises((ssl.SSLError, ConnectionResetError)):
                await ask(port, unknown, "a.example", pair("a.example"))
    finally:
        running.cancel()
        await asyncio.wait([running])
        behind.close()


def test_it_is_the_same_on_the_loop_that_agents_run_on() -> None:
    uvloop.run(test_each_name_is_served_with_its_own_certificate_and_nothing_else_is())

"""A TLS server whose certificates cost its clients much: a long chain of keys with long public exponents.

with HostileTlsServer(40) as server:
    server.port, server.authority
"""

import datetime
import ipaddress
import math
import secrets
import socket
import ssl
import threading
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

_PEM = serialization.Encoding.PEM


class HostileTlsServer:
    """It completes handshakes, reads one byte and closes the connection."""

    def __init__(self, chain_length: int) -> None:
        key = _costly_key()
        self._chain = [_certificate(number, chain_length, key) for number in range(chain_length + 1)]
        private = key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        certificates = b"".join(each.public_bytes(_PEM) for each in reversed(self._chain[1:]))
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        with TemporaryDirectory() as directory:
            pair = Path(directory) / "pair.pem"
            pair.touch(mode=0o600)
            pair.write_bytes(certificates + private)
            self._context.load_cert_chain(pair)
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self._thread = threading.Thread(target=self._serve, daemon=True)

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    @property
    def authority(self) -> bytes:
        """The certificate of the root."""
        return self._chain[0].public_bytes(_PEM)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                sock, _ = self._listener.accept()
                with suppress(OSError), self._context.wrap_socket(sock, server_side=True) as tls:
                    tls.recv(1)


def _costly_key() -> rsa.RSAPrivateKey:
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


def _certificate(number: int, last: int, key: rsa.RSAPrivateKey) -> x509.Certificate:
    """The certificate of that number in the chain: 0 is the root, the last one the server's."""

    def name(of: int) -> x509.Name:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"c{of}")])

    now, day = datetime.datetime.now(datetime.UTC), datetime.timedelta(days=1)
    builder = x509.CertificateBuilder(
        name(max(0, number - 1)), name(number), key.public_key(), number + 1, now - day, now + day
    )
    if number == last:
        address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
        builder = builder.add_extension(x509.SubjectAlternativeName([address]), critical=False)
    else:
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    return builder.sign(key, hashes.SHA256())

"""The node's serving certificate: requested from ring0, kept on disk, renewed before it expires.

Its subject is the node's, by which API servers authenticate the node.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import serialization

from alcove.agent.certificates import (
    RETRY_SECONDS,
    RETRY_SECONDS_MAX,
    SERVING,
    NotSigned,
    ask,
    renewal_time,
    replace_file,
    subject_of,
    until,
)
from alcove.api.errors import ApiError
from alcove.client.client import Client
from alcove.client.errors import ClientError

log = logging.getLogger(__name__)


class ServingCertificate:
    def __init__(
        self, directory: Path, node: str, address: str, client: Client, clock: Callable[[], float] = time.time
    ) -> None:
        self.path = directory / "serving.pem"
        """Certificate and key in one file, so that a reader never gets a pair that does not match."""
        self._node = node
        self._names = [x509.DNSName(node), x509.IPAddress(ip_address(address))]
        self._client = client
        self._clock = clock

    async def ready(self) -> None:
        """Waits until there is a certificate that is not due for renewal."""
        if self._due() <= self._clock():
            await self._renew()

    async def keep(self, renewed: Callable[[], None]) -> None:
        """Renews the certificate until cancelled; `renewed` is called after each renewal."""
        while True:
            await until(self._due(), self._clock)
            await self._renew()
            renewed()

    def _due(self) -> float:
        """When to renew, in epoch seconds; 0 if there is no certificate, or it is for another node or
        address."""
        try:
            content = self.path.read_bytes()
            certificate = x509.load_pem_x509_certificate(content)
            serialization.load_pem_private_key(content, None)
            names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        except (OSError, ValueError, x509.ExtensionNotFound):
            return 0.0
        if certificate.subject != subject_of(self._node) or set(names) != set(self._names):
            return 0.0
        return renewal_time(certificate, random.random())

    async def _renew(self) -> None:
        """Requests a certificate, with back-off, until that succeeds."""
        waits = RETRY_SECONDS
        while True:
            try:
                pair = await ask(self._client, self._node, SERVING, self._names)
                await asyncio.to_thread(replace_file, self.path, pair.certificate_pem + pair.key_pem)
                return
            except (ApiError, ClientError, NotSigned, OSError) as error:
                log.warning(
                    "failed to get serving certificate; retrying",
                    extra={"node": self._node, "error": str(error)},
                )
            await asyncio.sleep(waits)
            waits = min(waits * 2, RETRY_SECONDS_MAX)

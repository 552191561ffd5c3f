"""The node's serving certificate: asked of ring0, kept on disk, renewed before it ends.

By the certificate's subject, which is the node's, API servers know whom they talk to.
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
        self, folder: Path, node: str, address: str, client: Client, clock: Callable[[], float] = time.time
    ) -> None:
        self.path = folder / "serving.pem"
        """Certificate and key in one file: they are never seen to differ."""
        self._node = node
        self._names = [x509.DNSName(node), x509.IPAddress(ip_address(address))]
        self._client = client
        self._clock = clock

    async def ready(self) -> None:
        """Waits until there is one that is good for a while."""
        if self._due() <= self._clock():
            await self._renew()

    async def keep(self, renewed: Callable[[], None]) -> None:
        """Until cancelled; `renewed` is called each time there is another."""
        while True:
            await until(self._due(), self._clock)
            await self._renew()
            renewed()

    def _due(self) -> float:
        """When the next is to be asked for: now, if there is none, or it is another node's or for other names."""
        try:
            content = self.path.read_bytes()
            found = x509.load_pem_x509_certificate(content)
            serialization.load_pem_private_key(content, None)
            names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        except (OSError, ValueError, x509.ExtensionNotFound):
            return 0.0
        if found.subject != subject_of(self._node) or set(names) != set(self._names):
            return 0.0
        return renewal_time(found, random.random())

    async def _renew(self) -> None:
        """Asks again, ever more patiently, until there is one."""
        waits = RETRY_SECONDS
        while True:
            try:
                pair = await ask(self._client, self._node, SERVING, self._names)
                await asyncio.to_thread(replace_file, self.path, pair.certificate_pem + pair.key_pem)
                return
            except (ApiError, ClientError, NotSigned, OSError) as error:
                log.warning("no serving certificate yet", extra={"node": self._node, "error": str(error)})
            await asyncio.sleep(waits)
            waits = min(waits * 2, RETRY_SECONDS_MAX)

"""The node's client certificate, in its kubeconfig: renewed with its own credential before it expires, as the
kubelet does.

If a renewal fails, the current certificate stays in use, and the renewal is retried. A credential that is not
a certificate of this node (an administrator's, a token) is not renewed here.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import os
import random
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml
from cryptography import x509

from alcove.agent.certificates import (
    CHECK_SECONDS,
    CLIENT,
    RETRY_SECONDS,
    RETRY_SECONDS_MAX,
    CertificatePair,
    NotSigned,
    ask,
    renewal_time,
    replace_file,
    subject_of,
)
from alcove.api.errors import ApiError
from alcove.client import kubeconfig
from alcove.client.client import Client
from alcove.client.errors import BadKubeconfig, ClientError

log = logging.getLogger(__name__)


class ClientCertificate:
    """`keep` renews until cancelled. Clients that use the kubeconfig reload it when it changes."""

    def __init__(
        self,
        path: Path,
        node: str,
        client: Client,
        clock: Callable[[], float] = time.time,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._path = path
        self._node = node
        self._client = client
        self._clock = clock
        self._chance = chance
        self.ends = 0.0
        """Expiration of the current certificate, in epoch seconds; 0 if there is none of this node."""

    async def keep(self) -> None:
        current: x509.Certificate | None = None
        due, waits = 0.0, RETRY_SECONDS
        while True:
            # Read again each time: another process may have renewed it.
            certificate = await asyncio.to_thread(read_client_certificate, self._path, self._node)
            if certificate is not None and certificate != current:
                due = renewal_time(certificate, self._chance())
                self.ends = certificate.not_valid_after_utc.timestamp()
                waits = RETRY_SECONDS
                extra = {"ends": _format_time(self.ends), "renewed_at": _format_time(due)}
                log.info("client certificate loaded", extra=extra)
            current = certificate
            remaining = due - self._clock() if certificate is not None else CHECK_SECONDS
            if remaining > 0:
                await asyncio.sleep(min(remaining, CHECK_SECONDS))
            elif not await self._renew():
                await asyncio.sleep(waits)
                waits = min(waits * 2, RETRY_SECONDS_MAX)

    async def _renew(self) -> bool:
        """Whether the certificate was renewed."""
        try:
            if not os.access(self._path.resolve().parent, os.W_OK):
                raise OSError(
                    "directory is not writable; the creator of the file has to renew the certificate"
                )
            pair = await ask(self._client, self._node, CLIENT)
            await asyncio.to_thread(rewrite, self._path, pair)
        except (ApiError, ClientError, NotSigned, OSError, BadKubeconfig) as error:
            log.warning(
                "failed to renew client certificate; retrying",
                extra={"path": str(self._path), "error": str(error)},
            )
            return False
        log.info("client certificate renewed", extra={"node": self._node})
        return True


def read_client_certificate(path: Path, node: str) -> x509.Certificate | None:
    """The certificate of the kubeconfig's current user; None if it is not this node's."""
    try:
        certificate = x509.load_pem_x509_certificate(kubeconfig.load(path).certificate_pem)
    except (BadKubeconfig, ValueError):
        return None
    return certificate if certificate.subject == subject_of(node) else None


def rewrite(path: Path, pair: CertificatePair) -> None:
    """Atomically replaces the certificate and key of the current context's user. Raises OSError and
    BadKubeconfig."""
    try:
        config = yaml.safe_load(path.read_text())
        context = _named(config["contexts"], config["current-context"])["context"]
        user = _named(config["users"], context["user"])["user"]
    except (KeyError, TypeError, StopIteration, yaml.YAMLError) as error:
        raise BadKubeconfig(f"{path} is not a kubeconfig with a current context") from error
    # Inline: with separate files, a client could read a certificate and a key that do not match.
    for field in ("client-certificate", "client-key"):
        user.pop(field, None)
    user["client-certificate-data"] = base64.b64encode(pair.certificate_pem).decode()
    user["client-key-data"] = base64.b64encode(pair.key_pem).decode()
    replace_file(path, yaml.safe_dump(config, sort_keys=False).encode())


def _named(entries: list[Any], name: str) -> Any:
    return next(entry for entry in entries if entry["name"] == name)


def _format_time(time: float) -> str:
    return datetime.fromtimestamp(time, UTC).isoformat(timespec="seconds")

"""The node's own client certificate, in its kubeconfig: renewed with itself before it ends, as kubelet does.

Nothing is lost if a renewal fails: the present certificate is good until its end, and another is asked for. A
credential that is not a certificate of this node (an administrator's, a token) is its giver's to renew.
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
    CLIENT,
    LOOK_SECONDS,
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
    """`keep` until cancelled. Who uses the kubeconfig reads it again when it changes."""

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
        """Of the certificate in use, in epoch seconds; 0: there is none that would be renewed here."""

    async def keep(self) -> None:
        known: x509.Certificate | None = None
        due, waits = 0.0, RETRY_SECONDS
        while True:
            # Looked at anew each time: somebody else may have renewed it meanwhile.
            found = await asyncio.to_thread(read_client_certificate, self._path, self._node)
            if found is not None and found != known:
                due, self.ends = renewal_time(found, self._chance()), found.not_valid_after_utc.timestamp()
                waits = RETRY_SECONDS
                log.info("client certificate", extra={"ends": _told(self.ends), "renewed_at": _told(due)})
            known = found
            left = due - self._clock() if found is not None else LOOK_SECONDS
            if left > 0:
                await asyncio.sleep(min(left, LOOK_SECONDS))
            elif not await self._renew():
                await asyncio.sleep(waits)
                waits = min(waits * 2, RETRY_SECONDS_MAX)

    async def _renew(self) -> bool:
        """Whether there is another now."""
        try:
            if not os.access(self._path.resolve().parent, os.W_OK):
                raise OSError("its folder cannot be written; who made the file has to renew the certificate")
            pair = await ask(self._client, self._node, CLIENT)
            await asyncio.to_thread(rewrite, self._path, pair)
        except (ApiError, ClientError, NotSigned, OSError, BadKubeconfig) as error:
            log.warning(
                "client certificate not renewed", extra={"path": str(self._path), "error": str(error)}
            )
            return False
        log.info("client certificate renewed", extra={"node": self._node})
        return True


def read_client_certificate(path: Path, node: str) -> x509.Certificate | None:
    """The certificate of this very node in a kubeconfig."""
    try:
        found = x509.load_pem_x509_certificate(kubeconfig.load(path).certificate_pem)
    except (BadKubeconfig, ValueError):
        return None
    return found if found.subject == subject_of(node) else None


def rewrite(path: Path, pair: CertificatePair) -> None:
    """Puts another certificate in the place of the current context's, in one step. Raises OSError, BadKubeconfig."""
    try:
        config = yaml.safe_load(path.read_text())
        context = _named(config["contexts"], config["current-context"])["context"]
        user = _named(config["users"], context["user"])["user"]
    except (KeyError, TypeError, StopIteration, yaml.YAMLError) as error:
        raise BadKubeconfig(f"{path} is not a kubeconfig with a current context") from error
    # In the file itself: a certificate and a key in files of their own could be seen to differ.
    for field in ("client-certificate", "client-key"):
        user.pop(field, None)
    user["client-certificate-data"] = base64.b64encode(pair.certificate_pem).decode()
    user["client-key-data"] = base64.b64encode(pair.key_pem).decode()
    replace_file(path, yaml.safe_dump(config, sort_keys=False).encode())


def _named(entries: list[Any], name: str) -> Any:
    return next(entry for entry in entries if entry["name"] == name)


def _told(time: float) -> str:
    return datetime.fromtimestamp(time, UTC).isoformat(timespec="seconds")

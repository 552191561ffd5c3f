"""A dedicated plane's API server for tests, without the pod that ring0 runs it in."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from alcove.api.ids import TenantId
from alcove.apiserver.auth.certificates import CertificateAuthority
from alcove.processes.plane_certificates import plane_certificates
from alcove.testing.server import LocalServer


class DedicatedServer(LocalServer):
    """`alcove apiserver --tenant T`, which trusts the ring0 of `home`."""

    def __init__(
        self, directory: Path, home: LocalServer, tenant: str, own_keys: Mapping[str, str] | None = None
    ) -> None:
        """`own_keys` are those that controllers have made for the plane; None for new ones."""
        keys = directory / "keys"
        keys.mkdir(parents=True)
        ring0 = CertificateAuthority.open(home.directory / "pki", time.time())
        texts = dict(own_keys or plane_certificates().new_keys(TenantId(tenant)))
        texts["ring0-ca.crt"] = ring0.certificate_pem.decode()
        texts["node-ca.crt"] = ring0.for_nodes(time.time()).certificate_pem.decode()
        for name, text in texts.items():
            (keys / name).write_text(text)
        self.authority = CertificateAuthority.open(keys, time.time())
        super().__init__(directory / "data", "--tenant", tenant, "--keys", str(keys))

    @property
    def url(self) -> str:
        host, port = self.address
        return f"https://{host}:{port}"

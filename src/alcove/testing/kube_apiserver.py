"""kube-apiserver and etcd, as KUBEBUILDER_ASSETS names them: Kubernetes' own API server, alone.

with KubeApiServer(directory, kubernetes_assets()) as server:
    kubectl --kubeconfig server.kubeconfig get namespaces
"""

from __future__ import annotations

import base64
import os
import ssl
import subprocess
import time
import urllib.request
from datetime import timedelta
from pathlib import Path
from typing import Self

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from alcove.apiserver.auth import certificates
from alcove.apiserver.auth.certificates import CertificateAuthority
from alcove.testing.claims import free_port

START_SECONDS_MAX = 60.0
MASTERS = "system:masters"
_PROGRAMS = ("kube-apiserver", "etcd")


def kubernetes_assets() -> Path | None:
    """The folder with the programs; None if none is named. Raises SystemExit if it lacks one."""
    given = os.environ.get("KUBEBUILDER_ASSETS")
    if not given:
        return None
    folder = Path(given)
    missing = [name for name in _PROGRAMS if not (folder / name).exists()]
    if missing:
        raise SystemExit(f"KUBEBUILDER_ASSETS={folder} has no {', '.join(missing)}")
    return folder


class KubeApiServer:
    def __init__(self, directory: Path, assets: Path, *options: str, address: str = "127.0.0.1") -> None:
        """`options` are further flags. It listens on all addresses if `address` is not loopback."""
        self.directory = directory / "kubernetes"
        self._assets = assets
        self._options = options
        self.address, self.port = address, free_port()
        self.processes: list[subprocess.Popen[bytes]] = []

    @property
    def url(self) -> str:
        return f"https://{self.address}:{self.port}"

    @property
    def pki(self) -> Path:
        return self.directory / "pki"

    def prepare(self) -> None:
        """Makes its authority; called before `client`, if that is needed before it starts."""
        self.pki.mkdir(parents=True)
        now = time.time()
        self.authority = CertificateAuthority.open(self.pki, now)
        names = ["localhost", "127.0.0.1", self.address, "kubernetes.default.svc"]
        serving = self.authority.serving(names, now)
        (self.pki / "serving.crt").write_bytes(serving.certificate_pem)
        (self.pki / "serving.key").write_bytes(serving.key_pem)
        (self.pki / "signing.pub").write_bytes(_public(serving.key_pem))

    def __enter__(self) -> Self:
        if not self.pki.exists():
            self.prepare()
        try:
            self._start_all()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _start_all(self) -> None:
        etcd, peer = free_port(), free_port()
        self._start(
            "etcd",
            f"--data-dir={self.directory / 'etcd'}",
            f"--listen-client-urls=http://127.0.0.1:{etcd}",
            f"--advertise-client-urls=http://127.0.0.1:{etcd}",
            f"--listen-peer-urls=http://127.0.0.1:{peer}",
        )
        self._start(
            "kube-apiserver",
            f"--etcd-servers=http://127.0.0.1:{etcd}",
            f"--secure-port={self.port}",
            f"--bind-address={'127.0.0.1' if self.address == '127.0.0.1' else '0.0.0.0'}",
            f"--tls-cert-file={self.pki / 'serving.crt'}",
            f"--tls-private-key-file={self.pki / 'serving.key'}",
            f"--client-ca-file={self.pki / 'ca.crt'}",
            "--authorization-mode=RBAC",
            "--service-account-issuer=https://localhost",
            f"--service-account-key-file={self.pki / 'signing.pub'}",
            f"--service-account-signing-key-file={self.pki / 'serving.key'}",
            f"--cert-dir={self.directory}",
            *self._options,
        )
        deadline = time.monotonic() + START_SECONDS_MAX
        while not self._is_ready():
            ended = [each.args for each in self.processes if each.poll() is not None]
            if ended or time.monotonic() > deadline:
                raise RuntimeError(f"kube-apiserver is not ready, see {self.directory}; ended: {ended}")
            time.sleep(0.05)

    def _start(self, program: str, *arguments: str) -> None:
        with (self.directory / f"{program}.log").open("wb") as log:
            command = [str(self._assets / program), *arguments]
            self.processes.append(subprocess.Popen(command, stdout=log, stderr=log))

    def _is_ready(self) -> bool:
        context = ssl.create_default_context(cadata=self.authority.certificate_pem.decode())
        try:
            with urllib.request.urlopen(f"https://127.0.0.1:{self.port}/readyz", context=context) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def client(self, user: str, group: str = MASTERS) -> tuple[bytes, bytes]:
        """A client certificate in Kubernetes' own form, in which the group is the organisation; and its key."""
        key = certificates.new_key()
        attributes = ((NameOID.ORGANIZATION_NAME, group), (NameOID.COMMON_NAME, user))
        name = x509.Name([x509.NameAttribute(*each) for each in attributes])
        profile = certificates.CertificateProfile(usages=[ExtendedKeyUsageOID.CLIENT_AUTH])
        signed = self.authority.sign(key.public_key(), name, profile, time.time(), timedelta(days=1))
        return certificates.pem(signed), certificates.to_pem(key)

    def kubeconfig(self, user: str = "admin", group: str = MASTERS) -> Path:
        """A file for somebody."""
        certificate, key = (base64.b64encode(each).decode() for each in self.client(user, group))
        authority = base64.b64encode(self.authority.certificate_pem).decode()
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {"name": "stock", "cluster": {"server": self.url, "certificate-authority-data": authority}}
            ],
            "users": [
                {"name": user, "user": {"client-certificate-data": certificate, "client-key-data": key}}
            ],
            "contexts": [{"name": "stock", "context": {"cluster": "stock", "user": user}}],
            "current-context": "stock",
        }
        path = self.directory / f"{user}.kubeconfig"
        path.write_text(yaml.safe_dump(config))
        return path

    def __exit__(self, *_exc: object) -> None:
        for process in reversed(self.processes):
            process.kill()
            process.wait()


def _public(key_pem: bytes) -> bytes:
    key = serialization.load_pem_private_key(key_pem, password=None)
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return key.public_key().public_bytes(serialization.Encoding.PEM, form)

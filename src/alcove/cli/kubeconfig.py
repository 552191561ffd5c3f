"""Kubeconfig files for one user of one tenant, for any Kubernetes client."""

import base64
from typing import Any

import yaml
from msgspec import Struct


class KubeconfigCertificate(Struct, frozen=True):
    certificate_pem: bytes
    key_pem: bytes


class BearerToken(Struct, frozen=True):
    token: str


def server_url(server: str, tenant: str) -> str:
    """The URL of the tenant's API: `https://host:6443/tenants/T`."""
    return f"{server.rstrip('/')}/tenants/{tenant}"


def render(
    server: str, ca_pem: bytes, tenant: str, user: str, credential: KubeconfigCertificate | BearerToken
) -> str:
    """The file's text. `server` is the URL without a tenant, `https://host:6443`."""
    name = f"{user}@{tenant}"
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": tenant,
                "cluster": {
                    "server": server_url(server, tenant),
                    "certificate-authority-data": _base64(ca_pem),
                },
            }
        ],
        "users": [{"name": name, "user": _user(credential)}],
        "contexts": [{"name": name, "context": {"cluster": tenant, "user": name, "namespace": "default"}}],
        "current-context": name,
    }
    text: str = yaml.safe_dump(config, sort_keys=False)
    return text


def _user(credential: KubeconfigCertificate | BearerToken) -> dict[str, Any]:
    if isinstance(credential, BearerToken):
        return {"token": credential.token}
    return {
        "client-certificate-data": _base64(credential.certificate_pem),
        "client-key-data": _base64(credential.key_pem),
    }


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")

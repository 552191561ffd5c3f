"""Reads kubeconfigs: the server's address, its CA, and the user's credentials."""

from __future__ import annotations

import base64
import binascii
import os
import ssl
import tempfile
from pathlib import Path
from typing import Any

import yaml
from msgspec import Struct

from alcove.client.errors import BadKubeconfig


class KubeconfigUser(Struct, frozen=True):
    """The server and credentials of one context of a kubeconfig."""

    server: str
    """Without a path: `https://host:6443`."""
    ca_pem: bytes
    certificate_pem: bytes = b""
    key_pem: bytes = b""
    token: str = ""
    tenant: str = ""
    """The tenant in the path of the server's URL; empty if it has none."""
    caller_ca_pem: bytes | None = None
    """The authority of the client certificate by which the API server calls agents; None if it is `ca_pem`, empty if
    it may not call."""
    caller_name: str = ""
    """The common name in that certificate; empty for that of Alcove's API servers."""

    def tls(self) -> ssl.SSLContext:
        """A TLS context that trusts only this cluster's CA and presents the client certificate if there is
        one.

        Raises BadKubeconfig.
        """
        try:
            context = ssl.create_default_context(cadata=self.ca_pem.decode())
            if self.certificate_pem:
                _load_pair(context, self.certificate_pem + self.key_pem)
        except (ssl.SSLError, ValueError) as error:
            raise BadKubeconfig(f"invalid certificate or key in kubeconfig: {error}") from error
        return context


def load(path: Path, context_name: str = "") -> KubeconfigUser:
    """The named or the current context of the kubeconfig. Raises BadKubeconfig."""
    try:
        return parse(path.read_bytes(), path, context_name)
    except OSError as error:
        raise BadKubeconfig(
            f"cannot read {error.filename or path}: {error.strerror}; set another file with --kubeconfig"
        ) from error


def parse(content: bytes, path: Path = Path("kubeconfig"), context_name: str = "") -> KubeconfigUser:
    """The named or the current context of a kubeconfig's content. Files in it are relative to `path`. Raises
    BadKubeconfig, OSError."""
    try:
        config = yaml.safe_load(content)
        context = _named(config["contexts"], context_name or config["current-context"])["context"]
        cluster = _named(config["clusters"], context["cluster"])["cluster"]
        user = _named(config["users"], context["user"])["user"]
        return KubeconfigUser(
            _origin(cluster["server"]),
            _data(path, cluster, "certificate-authority"),
            _data(path, user, "client-certificate"),
            _data(path, user, "client-key"),
            _token(path, user),
            _tenant(cluster["server"]),
        )
    except (KeyError, TypeError, AttributeError, StopIteration, binascii.Error, yaml.YAMLError) as error:
        wanted = f'the context "{context_name}"' if context_name else "a current context"
        raise BadKubeconfig(f"{path} is not a kubeconfig with {wanted}") from error


def default_path() -> Path:
    configured = os.environ.get("KUBECONFIG")
    return Path(configured.split(os.pathsep)[0]) if configured else Path.home() / ".kube" / "config"


def _origin(url: str) -> str:
    """The URL without its path: our processes name the tenant in every request path, so a tenant's prefix is
    dropped."""
    scheme, separator, rest = url.partition("://")
    if scheme != "https" or not separator or not rest:
        raise BadKubeconfig(f'the server "{url}" is not an https:// URL')
    return f"https://{rest.partition('/')[0]}"


def _tenant(url: str) -> str:
    match url.partition("://")[2].split("/"):
        case [_, "tenants", tenant, *_]:
            return tenant
    return ""


def _named(entries: list[Any], name: str) -> Any:
    return next(entry for entry in entries if entry["name"] == name)


def _data(config: Path, holder: Any, field: str) -> bytes:
    if f"{field}-data" in holder:
        return base64.b64decode(holder[f"{field}-data"], validate=True)
    # Relative paths are relative to the kubeconfig.
    return (config.parent / holder[field]).read_bytes() if field in holder else b""


def _token(config: Path, user: Any) -> str:
    if "tokenFile" in user:
        return (config.parent / str(user["tokenFile"])).read_text().strip()
    return str(user.get("token", ""))


def _load_pair(context: ssl.SSLContext, pem: bytes) -> None:
    # The ssl module reads certificates and keys only from files; this one is private and removed immediately.
    with tempfile.NamedTemporaryFile() as pair:
        pair.write(pem)
        pair.flush()
        context.load_cert_chain(pair.name)

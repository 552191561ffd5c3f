"""Reading kubeconfigs: where a server is, how to trust it, and who we are to it."""

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
    """What a kubeconfig's current context comes to."""

    server: str
    """Without a path: `https://host:6443`."""
    ca_pem: bytes
    certificate_pem: bytes = b""
    key_pem: bytes = b""
    token: str = ""

    def tls(self) -> ssl.SSLContext:
        """Trusts only this cluster's authority, and shows the client certificate if there is one."""
        try:
            context = ssl.create_default_context(cadata=self.ca_pem.decode())
            if self.certificate_pem:
                _load_pair(context, self.certificate_pem + self.key_pem)
        except (ssl.SSLError, ValueError) as error:
            raise BadKubeconfig(f"its certificates or keys cannot be used: {error}") from error
        return context


def load(path: Path) -> KubeconfigUser:
    """Raises BadKubeconfig."""
    try:
        config = yaml.safe_load(path.read_text())
        context = _named(config["contexts"], config["current-context"])["context"]
        cluster = _named(config["clusters"], context["cluster"])["cluster"]
        user = _named(config["users"], context["user"])["user"]
        return KubeconfigUser(
            _origin(cluster["server"]),
            _data(path, cluster, "certificate-authority"),
            _data(path, user, "client-certificate"),
            _data(path, user, "client-key"),
            _token(path, user),
        )
    except OSError as error:
        raise BadKubeconfig(
            f"cannot read {error.filename or path}: {error.strerror}; name another file with --kubeconfig"
        ) from error
    except (KeyError, TypeError, AttributeError, StopIteration, binascii.Error, yaml.YAMLError) as error:
        raise BadKubeconfig(f"{path} is not a kubeconfig with a current context") from error


def default_path() -> Path:
    given = os.environ.get("KUBECONFIG")
    return Path(given.split(os.pathsep)[0]) if given else Path.home() / ".kube" / "config"


def _origin(url: str) -> str:
    """Processes name tenants in every path themselves: a tenant's prefix in the URL is not theirs."""
    scheme, separator, rest = url.partition("://")
    if scheme != "https" or not separator or not rest:
        raise BadKubeconfig(f'the server "{url}" is not an https:// URL')
    return f"https://{rest.partition('/')[0]}"


def _named(entries: list[Any], name: str) -> Any:
    return next(entry for entry in entries if entry["name"] == name)


def _data(config: Path, holder: Any, field: str) -> bytes:
    if f"{field}-data" in holder:
        return base64.b64decode(holder[f"{field}-data"], validate=True)
    # Relative paths are relative to the file that names them.
    return (config.parent / holder[field]).read_bytes() if field in holder else b""


def _token(config: Path, user: Any) -> str:
    if "tokenFile" in user:
        return (config.parent / str(user["tokenFile"])).read_text().strip()
    return str(user.get("token", ""))


def _load_pair(context: ssl.SSLContext, pem: bytes) -> None:
    # The ssl module takes certificates and keys only as files; this one is nobody else's and gone at once.
    with tempfile.NamedTemporaryFile() as pair:
        pair.write(pem)
        pair.flush()
        context.load_cert_chain(pair.name)

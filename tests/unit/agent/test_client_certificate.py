"""Replacing the certificate in a kubeconfig keeps everything else."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
import yaml

from alcove.agent.certificates import CertificatePair
from alcove.agent.client_certificate import rewrite
from alcove.client import kubeconfig
from alcove.client.errors import BadKubeconfig

CA = base64.b64encode(b"ca").decode()


def config(**user: str) -> str:
    return yaml.safe_dump(
        {
            "clusters": [
                {"name": "c", "cluster": {"server": "https://h:1", "certificate-authority-data": CA}}
            ],
            "users": [
                {"name": "other", "user": {"token": "t"}},
                {"name": "node", "user": user},
            ],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "node"}}],
            "current-context": "x",
        }
    )


def test_only_the_current_users_certificate_changes(tmp_path: Path) -> None:
    (tmp_path / "old.crt").write_bytes(b"old")
    path = tmp_path / "kubeconfig"
    path.write_text(config(**{"client-certificate": "old.crt", "client-key": "old.crt"}))
    rewrite(path, CertificatePair(b"new certificate", b"new key"))
    user = kubeconfig.load(path)
    assert (user.certificate_pem, user.key_pem) == (b"new certificate", b"new key")
    assert (user.server, user.ca_pem) == ("https://h:1", b"ca")
    assert yaml.safe_load(path.read_text())["users"][0] == {"name": "other", "user": {"token": "t"}}
    assert (tmp_path / "old.crt").read_bytes() == b"old"


@pytest.mark.parametrize("text", ["", "[]", "{", "users: 1", config().replace("current-context", "c")])
def test_what_is_no_kubeconfig_stays(tmp_path: Path, text: str) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(text)
    with pytest.raises(BadKubeconfig):
        rewrite(path, CertificatePair(b"c", b"k"))
    assert path.read_text() == text

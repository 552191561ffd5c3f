"""Valid and invalid kubeconfigs."""

from pathlib import Path

import pytest
import yaml

from alcove.client.errors import BadKubeconfig
from alcove.client.kubeconfig import KubeconfigUser, default_path, load
from alcove.testing.server import LocalServer


def test_the_admins_file_says_all_that_is_needed(server: LocalServer) -> None:
    user = load(server.admin_kubeconfig)
    assert user.server.startswith("https://127.0.0.1:") and user.server.count("/") == 2
    assert user.certificate_pem and user.key_pem and not user.token
    assert user.tls().get_ca_certs()


def test_files_beside_the_kubeconfig(server: LocalServer, tmp_path: Path) -> None:
    user = load(server.admin_kubeconfig)
    (tmp_path / "ca.pem").write_bytes(user.ca_pem)
    (tmp_path / "token").write_text("secret\n")
    config = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [
            {"name": "k", "cluster": {"server": "https://h:1/x", "certificate-authority": "ca.pem"}}
        ],
        "users": [{"name": "u", "user": {"tokenFile": "token"}}],
    }
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(config))
    assert load(path) == KubeconfigUser("https://h:1", user.ca_pem, token="secret")


@pytest.mark.parametrize(
    "text", ["", "[]", "a: b", "{", "current-context: x\ncontexts: []\nclusters: []\nusers: []"]
)
def test_an_invalid_kubeconfig_is_reported(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(BadKubeconfig, match="not a kubeconfig"):
        load(path)


def test_a_missing_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(BadKubeconfig, match="--kubeconfig"):
        load(tmp_path / "none")


def test_bad_certificates_are_reported() -> None:
    with pytest.raises(BadKubeconfig):
        KubeconfigUser("https://h", b"no certificate").tls()


def test_the_default_is_kubectls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "/a:/b")
    assert default_path() == Path("/a")
    monkeypatch.delenv("KUBECONFIG")
    assert default_path() == Path.home() / ".kube" / "config"

"""Kubeconfig files: what an unmodified client reads out of them."""

import base64
import shutil
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

from alcove.cli import kubeconfig
from alcove.cli.kubeconfig import BearerToken, KubeconfigCertificate


def test_a_certificates_file() -> None:
    text = kubeconfig.render(
        "https://host:6443/", b"CA", "acme", "ann", KubeconfigCertificate(b"CERT", b"KEY")
    )
    found = yaml.safe_load(text)
    (cluster,), (user,), (context,) = found["clusters"], found["users"], found["contexts"]
    assert cluster["cluster"]["server"] == "https://host:6443/tenants/acme"
    assert base64.b64decode(cluster["cluster"]["certificate-authority-data"]) == b"CA"
    assert base64.b64decode(user["user"]["client-certificate-data"]) == b"CERT"
    assert base64.b64decode(user["user"]["client-key-data"]) == b"KEY"
    assert found["current-context"] == context["name"] == "ann@acme"
    assert context["context"] == {"cluster": "acme", "user": "ann@acme", "namespace": "default"}


def test_a_tokens_file() -> None:
    text = kubeconfig.render("https://host:6443", b"CA", "acme", "ann", BearerToken("t"))
    assert yaml.safe_load(text)["users"] == [{"name": "ann@acme", "user": {"token": "t"}}]


@pytest.mark.parametrize("user", ["system:node:n1", "a b", "#x", "yes", "1", "ann: {}", "é"])
def test_names_that_yaml_could_misread(user: str) -> None:
    found = yaml.safe_load(kubeconfig.render("https://h", b"", "acme", user, BearerToken("123")))
    assert found["users"] == [{"name": f"{user}@acme", "user": {"token": "123"}}]


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
def test_kubectl_understands_it(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(kubeconfig.render("https://[::1]:6443", b"CA", "acme", "ann", BearerToken("t")))
    command = ["kubectl", "config", "view", "--minify", "-o", "jsonpath={.clusters[0].cluster.server}"]
    shown = subprocess.run([*command, "--kubeconfig", str(path)], capture_output=True, text=True, check=True)
    assert urlsplit(shown.stdout).path == "/tenants/acme"

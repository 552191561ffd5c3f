"""An EncryptionConfiguration is used as Kubernetes would, or refused with what to change."""

import base64
from pathlib import Path

import pytest

from alcove.api.ids import GroupResource, Key, TenantId
from alcove.store import encryption_config
from alcove.store.base import StoreOpenError

SECRETS = GroupResource("", "secrets")
KEY = Key(SECRETS, TenantId("acme"), "default", "password")
SECRET = base64.b64encode(b"0123456789abcdef").decode()
HEAD = "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n"


def test_kubernetes_own_example_is_read() -> None:
    keys = f"keys: [{{name: key1, secret: {SECRET}}}, {{name: key2, secret: {SECRET}}}]"
    rule = f"- resources: [secrets, configmaps]\n  providers:\n  - aesgcm: {{{keys}}}\n  - identity: {{}}\n"
    providers = encryption_config.parse((HEAD + rule).encode()).providers(SECRETS)
    assert [each.name if each else None for each in providers.order] == ["key1", "key2", None]


@pytest.mark.parametrize(
    ("providers", "message"),
    [
        (
            "[{kms: {name: vault, endpoint: 'unix:///x'}}]",
            '"kms" is not supported: keys are read from this file',
        ),
        (f"[{{aescbc: {{keys: [{{name: a, secret: {SECRET}}}]}}}}]", '"aescbc" is not supported'),
        ("[{secretbox: {keys: []}}]", '"secretbox" is not supported'),
        ("[{rot13: {}}]", '"rot13" is not supported: use aesgcm or identity'),
        ("[]", "providers"),
        ("[{aesgcm: {keys: []}}]", "providers\\[0\\].aesgcm"),
        (
            "[{aesgcm: {keys: [{name: a, secret: c2hvcnQ=}]}}]",
            "secret has 5 bytes; it must have 16, 24 or 32",
        ),
        ("[{aesgcm: {keys: [{name: a, secret: '%'}]}}]", "secret is not base64"),
        (f"[{{aesgcm: {{keys: [{{name: 'a:b', secret: {SECRET}}}]}}}}]", "keys\\[0\\].name"),
        (
            f"[{{aesgcm: {{keys: [{{name: a, secret: {SECRET}}}, {{name: a, secret: {SECRET}}}]}}}}]",
            "the same name",
        ),
        ("[{identity: {}, aesgcm: {}}]", "exactly one provider"),
    ],
)
def test_what_cannot_be_done_as_written_is_refused(tmp_path: Path, providers: str, message: str) -> None:
    file = tmp_path / "encryption.yaml"
    file.write_text(f"{HEAD}- resources: [secrets]\n  providers: {providers}\n")
    with pytest.raises(StoreOpenError, match=message) as raised:
        encryption_config.load(file)
    assert str(raised.value).startswith(str(file)) and SECRET not in str(raised.value)


@pytest.mark.parametrize("text", ["", "kind: Pod", "resources: 1", HEAD.replace("v1", "v2") + " []"])
def test_other_files_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.yaml").write_text(text)
    with pytest.raises(StoreOpenError):
        encryption_config.load(tmp_path / "x.yaml")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreOpenError, match=r"none\.yaml: No such file"):
        encryption_config.load(tmp_path / "none.yaml")


def test_a_generated_configuration_encrypts_secrets_and_reads_what_is_not_encrypted_yet() -> None:
    first, second = (encryption_config.parse(encryption_config.generate()) for _ in range(2))
    providers = first.providers(SECRETS)
    stored = providers.seal(KEY, b"swordfish")
    assert b"swordfish" not in stored and providers.open(KEY, b"{}") == b"{}"
    [first_key, second_key] = [each.providers(SECRETS).order[0] for each in (first, second)]
    assert first_key is not None and second_key is not None and first_key.name != second_key.name

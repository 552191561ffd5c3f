"""Secrets at rest: what a server leaves on disk, in etcd and in backups, and what clients see when keys change."""

import base64
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from alcove.testing import etcd
from alcove.testing.etcd import EtcdCluster
from alcove.testing.server import Caller, LocalServer, wait_until

SECRETS = "/api/v1/namespaces/default/secrets"
VALUE = base64.b64encode(b"the password is swordfish").decode()
PLAIN = "plain configuration of haddock"
REWRITTEN = "stored objects were encrypted again"


def write_keys(file: Path, *names: str, identity: bool = True) -> None:
    """A configuration with these keys, the first of which encrypts; a key's bytes follow from its name."""
    keys = [{"name": name, "secret": base64.b64encode(name.encode().ljust(32)).decode()} for name in names]
    providers = ([{"aesgcm": {"keys": keys}}] if keys else []) + ([{"identity": {}}] if identity else [])
    file.write_text(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n"
        f"- resources: [secrets]\n  providers: {providers}\n"
    )


def server(directory: Path, *options: str) -> LocalServer:
    return LocalServer(
        directory / "server", *options, "--encryption-provider-config", str(directory / "keys")
    )


def create_objects(caller: Caller, name: str = "a") -> None:
    assert caller.post(SECRETS, {"metadata": {"name": name}, "data": {"it": VALUE}}).status == 201
    configuration = {"metadata": {"name": name}, "data": {"it": PLAIN}}
    assert caller.post("/api/v1/namespaces/default/configmaps", configuration).status == 201


def value_of(caller: Caller, name: str = "a") -> str:
    return str(caller.get(f"{SECRETS}/{name}").json["data"]["it"])


def on_disk(directory: Path) -> bytes:
    found = []
    for path in directory.rglob("*"):
        with suppress(FileNotFoundError, IsADirectoryError):  # A running server renames and removes files.
            found.append(path.read_bytes())
    return b"".join(found)


def check_disk(directory: Path) -> None:
    content = on_disk(directory)
    assert PLAIN.encode() in content, "this is where objects are stored"
    assert VALUE.encode() not in content and b"swordfish" not in content


def alcove(*arguments: str) -> str:
    command = [sys.executable, "-m", "alcove.processes.main", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def test_sqlite_its_log_and_a_backup_have_no_secret_and_a_restore_has_it(tmp_path: Path) -> None:
    write_keys(tmp_path / "keys", "one")
    with server(tmp_path) as running:
        acme = running.make_tenant("acme")
        create_objects(acme)
        acme.delete(f"{SECRETS}/a")
        create_objects(acme, "b")
        check_disk(tmp_path / "server")
        message = alcove("backup", str(tmp_path / "backup.tar"), "--data", str(tmp_path / "server"))
        assert "1 of them are encrypted; their keys are not in the backup" in message
        running.stop()
        check_disk(tmp_path / "server")
        backup = (tmp_path / "backup.tar").read_bytes()
        assert PLAIN.encode() in backup and VALUE.encode() not in backup
        running.start()
        assert value_of(acme, "b") == VALUE
    new = tmp_path / "new"
    assert 'needs the key "one"' in alcove("restore", str(tmp_path / "backup.tar"), "--data", str(new))
    (tmp_path / "keys").rename(new / "encryption.yaml")
    assert "warning" not in alcove("restore", str(tmp_path / "backup.tar"), "--replace", "--data", str(new))
    with LocalServer(new) as restored:
        assert value_of(restored.as_tenant("acme"), "b") == VALUE


@pytest.mark.skipif(bool(etcd.lacking()), reason=etcd.lacking())
def test_etcd_has_no_secret(tmp_path: Path) -> None:
    write_keys(tmp_path / "keys", "one")
    with EtcdCluster(tmp_path / "etcd") as cluster, server(tmp_path, *cluster.options()) as running:
        acme = running.make_tenant("acme")
        create_objects(acme)
        acme.delete(f"{SECRETS}/a")
        create_objects(acme, "b")
        check_disk(tmp_path / "etcd")
        running.stop()
        running.start()
        assert value_of(acme, "b") == VALUE
        assert acme.get(f"{SECRETS}/a").status == 404


def test_plain_secrets_are_encrypted_at_the_next_start_and_keys_are_rotated(tmp_path: Path) -> None:
    write_keys(tmp_path / "keys")
    running = server(tmp_path)
    with running:
        acme = running.make_tenant("acme")
        create_objects(acme)
        assert VALUE.encode() in on_disk(tmp_path / "server")
        for rotation, keys in enumerate((("one",), ("two", "one")), start=1):
            running.stop()
            write_keys(tmp_path / "keys", *keys)
            running.start()
            assert value_of(acme) == VALUE
            wait_until(lambda expected=rotation: running.log.count(REWRITTEN) == expected)
        running.stop()
        write_keys(tmp_path / "keys", "two", identity=False)
        running.start()
        assert value_of(acme) == VALUE
        assert "cannot be read" not in running.log and running.log.count(REWRITTEN) == 2


def test_a_secret_whose_key_is_gone_fails_alone_and_says_which_key_it_needs(tmp_path: Path) -> None:
    write_keys(tmp_path / "keys", "one")
    with server(tmp_path) as running:
        acme, other = running.make_tenant("acme"), running.make_tenant("other")
        create_objects(acme)
        running.stop()
        write_keys(tmp_path / "keys", "two")
        running.start()
        wait_until(lambda: "stored objects cannot be read" in running.log)
        assert "/secrets/acme/default/a" in running.log
        assert other.get(SECRETS).status == acme.get("/api/v1/namespaces/default/configmaps").status == 200
        for path in (f"{SECRETS}/a", SECRETS, "/api/v1/secrets"):
            answer = acme.get(path)
            assert answer.status == 500 and 'needs the key "one"' in answer.json["message"], answer.body
        assert acme.get("/api/v1/namespaces/kube-system/secrets").status == 200
        assert acme.post(SECRETS, {"metadata": {"name": "a"}}).status == 409
        assert acme.patch(f"{SECRETS}/a", {"data": {}}).status == 500
        everything = running.system.get("/api/v1/tenants/all/secrets")
        assert everything.status == 200 and "cannot be decrypted" in everything.headers["warning"]
        assert acme.delete(f"{SECRETS}/a").status == 500
        option = "ignoreStoreReadErrorWithClusterBreakingPotential=true"
        assert acme.delete(f"{SECRETS}/a?{option}").status == 200
        assert acme.get(SECRETS).json["items"] == [] and acme.get(f"{SECRETS}/a").status == 404


def test_a_server_refuses_a_configuration_that_it_cannot_follow(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n"
        "- resources: [secrets]\n  providers: [{kms: {name: vault}}]\n"
    )
    with pytest.raises(RuntimeError, match='provider "kms" is not supported'):
        server(tmp_path).start()

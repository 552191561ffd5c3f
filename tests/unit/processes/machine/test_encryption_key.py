"""A local cluster's encryption key: made once, private, and missed when objects need it."""

from pathlib import Path

import pytest

from alcove.api.ids import GroupResource, Key, TenantId
from alcove.processes.machine import encryption_key
from alcove.processes.machine.cluster_request import ClusterNotUp
from alcove.store import encryption_config
from alcove.store.base import WriteOp
from alcove.store.encrypted import EncryptedStore
from alcove.store.encryption_config import ENCRYPTION_FILE
from alcove.store.sqlite import SqliteStore

SECRET = Key(GroupResource("", "secrets"), TenantId("acme"), "default", "a")


async def write_secret(data: Path) -> None:
    inner = await SqliteStore.open(data / "store.db")
    store = EncryptedStore(inner, encryption_config.load(data / ENCRYPTION_FILE))
    await store.write([WriteOp(SECRET, b'{"metadata":{}}')])
    await store.close()


def test_the_key_is_made_once_and_only_its_owner_may_read_it(tmp_path: Path) -> None:
    encryption_key.ensure(tmp_path)
    made = (tmp_path / ENCRYPTION_FILE).read_bytes()
    encryption_key.ensure(tmp_path)
    assert (tmp_path / ENCRYPTION_FILE).read_bytes() == made
    assert (tmp_path / ENCRYPTION_FILE).stat().st_mode & 0o777 == 0o600


async def test_a_lost_key_is_noticed_and_not_replaced(tmp_path: Path) -> None:
    encryption_key.ensure(tmp_path)
    await write_secret(tmp_path)
    kept = (tmp_path / ENCRYPTION_FILE).rename(tmp_path / "kept")
    with pytest.raises(ClusterNotUp, match="1 stored objects are encrypted with its keys; copy it back"):
        encryption_key.ensure(tmp_path)
    assert not (tmp_path / ENCRYPTION_FILE).exists()
    kept.rename(tmp_path / ENCRYPTION_FILE)
    encryption_key.ensure(tmp_path)


@pytest.mark.parametrize("content", [b"", b"no database at all"])
def test_what_is_wrong_with_a_store_is_left_to_its_server(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "store.db").write_bytes(content)
    encryption_key.ensure(tmp_path)
    assert (tmp_path / ENCRYPTION_FILE).exists()

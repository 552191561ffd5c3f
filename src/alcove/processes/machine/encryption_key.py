"""The key that a local cluster's secrets are encrypted with: created at the first start, never replaced."""

from __future__ import annotations

from pathlib import Path

from alcove.apiserver.auth import keyfiles
from alcove.processes import backup
from alcove.processes.machine.cluster_request import ClusterNotUp
from alcove.store import encryption_config
from alcove.store.encryption_config import ENCRYPTION_FILE


def ensure(data: Path) -> None:
    """Creates the encryption configuration if there is none. Raises ClusterNotUp, KeyFileError."""
    path = data / ENCRYPTION_FILE
    # A new key beside objects that need the old one would hide that the old one is missing.
    if not path.exists() and (encrypted := backup.encrypted_objects(data)):
        raise ClusterNotUp(
            f"{path} is missing, and {encrypted} stored objects are encrypted with its keys; copy it back. "
            "If it is lost, put a new EncryptionConfiguration there; these objects then cannot be read"
        )
    keyfiles.read_or_create(path, encryption_config.generate)

"""What a pod's volumes have that is made for it: tokens of its service account, and certificates.

They are stored beside the pod's volumes, on the same tmpfs, so that a restarted agent continues to use them.
"""

from pathlib import Path

import msgspec
from msgspec import Struct, field

from alcove.agent.volumes.pod_certificates import PodCertificate
from alcove.agent.volumes.tokens import ServiceAccountToken


class Credentials(Struct):
    """By volume and number of the source."""

    tokens: dict[str, ServiceAccountToken] = field(default_factory=dict)
    certificates: dict[str, PodCertificate] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.tokens or self.certificates)

    def updated(self, renewed: "Credentials") -> "Credentials":
        return Credentials({**self.tokens, **renewed.tokens}, {**self.certificates, **renewed.certificates})


def read(path: Path) -> Credentials:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Credentials)
    except (OSError, msgspec.DecodeError):
        return Credentials()


def write(path: Path, credentials: Credentials) -> None:
    draft = path.with_suffix(".new")
    draft.touch(mode=0o600)
    draft.write_bytes(msgspec.json.encode(credentials))
    draft.rename(path)

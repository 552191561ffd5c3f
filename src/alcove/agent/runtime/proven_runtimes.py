"""Records of the runtimes that were proven since the machine was booted: a restarted agent does not prove
them again.

A proof is valid only for the same binaries (path, size, modification time) and the same boot.
"""

import shutil
from pathlib import Path

import msgspec
from msgspec import Struct

from alcove.agent.runtime import conmon
from alcove.agent.runtime.base import HandlerName
from alcove.agent.runtime.flavors import RuntimeFlavor

FOLDER = "proofs"
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class _Proof(Struct, frozen=True):
    boot_id: str
    programs: tuple[str, ...]
    """Path, size and modification time of each."""
    flavor: RuntimeFlavor


class ProvenRuntimes:
    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def find(self, handler: HandlerName) -> RuntimeFlavor | None:
        """The flavor with which the handler was proven; None if it has no valid proof."""
        try:
            proof = msgspec.json.decode(self._path(handler).read_bytes(), type=_Proof)
        except (FileNotFoundError, msgspec.DecodeError):
            return None
        return proof.flavor if proof == _proof(proof.flavor) else None

    def keep(self, flavor: RuntimeFlavor) -> None:
        self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        draft = self._directory / f"{flavor.handler}.new"
        draft.write_bytes(msgspec.json.encode(_proof(flavor)))
        draft.rename(self._path(flavor.handler))

    def copy_to(self, other: "ProvenRuntimes") -> None:
        """Copies the proofs that are still valid, for another node on this machine."""
        for path in self._directory.glob("*.json"):
            if (flavor := self.find(HandlerName(path.stem))) is not None:
                other.keep(flavor)

    def _path(self, handler: HandlerName) -> Path:
        return self._directory / f"{handler}.json"


def _proof(flavor: RuntimeFlavor) -> _Proof:
    programs = (flavor.find(), shutil.which(conmon.PROGRAM))
    fingerprints = tuple(_fingerprint(each) for each in programs if each)
    return _Proof(_BOOT_ID.read_text().strip(), fingerprints, flavor)


def _fingerprint(program: str) -> str:
    state = Path(program).stat()
    return f"{program} {state.st_size} {state.st_mtime_ns}"

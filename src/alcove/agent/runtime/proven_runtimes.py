"""Which runtimes were proven since the machine was started: an agent that starts anew need not prove them again.

A proof holds for the very programs it was made with, on the kernel that ran then.
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
    """Path, size and time of change of each."""
    flavor: RuntimeFlavor


class ProvenRuntimes:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def find(self, handler: HandlerName) -> RuntimeFlavor | None:
        """How the handler was called when it was proven; None: that is to be found out."""
        try:
            proof = msgspec.json.decode(self._path(handler).read_bytes(), type=_Proof)
        except (FileNotFoundError, msgspec.DecodeError):
            return None
        return proof.flavor if proof == _proof(proof.flavor) else None

    def keep(self, flavor: RuntimeFlavor) -> None:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        draft = self._folder / f"{flavor.handler}.new"
        draft.write_bytes(msgspec.json.encode(_proof(flavor)))
        draft.rename(self._path(flavor.handler))

    def copy_to(self, other: "ProvenRuntimes") -> None:
        """The proofs that still hold, for another who uses the same programs on this machine."""
        for path in self._folder.glob("*.json"):
            if (flavor := self.find(HandlerName(path.stem))) is not None:
                other.keep(flavor)

    def _path(self, handler: HandlerName) -> Path:
        return self._folder / f"{handler}.json"


def _proof(flavor: RuntimeFlavor) -> _Proof:
    found = (flavor.find(), shutil.which(conmon.PROGRAM))
    return _Proof(_BOOT_ID.read_text().strip(), tuple(_mark(each) for each in found if each), flavor)


def _mark(program: str) -> str:
    state = Path(program).stat()
    return f"{program} {state.st_size} {state.st_mtime_ns}"

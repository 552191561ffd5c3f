"""The image `alcove/etcd`, built from this node's etcd, for the stores of dedicated tenants. An upgrade of this package
leaves it as it is, so etcd is not restarted then."""

import shutil
from pathlib import Path

from alcove.agent.images import builtin, node_files
from alcove.agent.images.model import ToolMissing
from alcove.agent.runtime.config import ImageConfig

NAME = "alcove/etcd:node"
CONFIG = ImageConfig(entrypoint=("/bin/etcd",), env=("PATH=/bin",))
_DIRECTORIES = ("dev", "etc", "proc", "run", "sys", "tmp")


def find() -> Path:
    """The node's etcd. Raises ToolMissing."""
    path = shutil.which("etcd")
    if path is None:
        raise ToolMissing("etcd is not installed on this node; install it there (Debian: etcd-server)")
    return Path(path).resolve()


def build(program: Path, rootfs: Path) -> None:
    """Puts the program and its shared libraries into the empty directory `rootfs`."""
    rootfs.chmod(0o755)
    for name in _DIRECTORIES:
        (rootfs / name).mkdir()
    for name, text in builtin.FILES.items():
        (rootfs / name).write_text(text)
    node_files.place(program, rootfs / "bin/etcd")
    for path in sorted(node_files.libraries((program,))):
        node_files.place(path.resolve(), rootfs / path.relative_to("/"))

"""The image `alcove/alcove`, built from this node's own installation: Python, this package and what it requires.

Ring0 runs the API servers of dedicated tenants from it, so that no registry is needed. Files have the same paths as on
the node (`node_files`).
"""

import os
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path

import alcove
from alcove.agent.images import builtin, node_files
from alcove.agent.runtime.config import ImageConfig
from alcove.api.schema import kubernetes_schemas

REPOSITORY = "alcove/alcove"
NAME = f"{REPOSITORY}:{alcove.__version__}"
_PACKAGE = Path(alcove.__file__).parent
CONFIG = ImageConfig(
    entrypoint=(sys.executable, "-m", "alcove.processes.main"),
    # The image is read-only; bytecode was compiled when the package was installed or first used.
    env=("PATH=/bin", f"PYTHONPATH={_PACKAGE.parent}", "PYTHONDONTWRITEBYTECODE=1"),
)
_UNUSED = (
    "site-packages",
    "dist-packages",
    "test",
    "idlelib",
    "tkinter",
    "turtledemo",
    "ensurepip",
    "config-",
)
"""Directories of the standard library that are left out."""
_UNUSED_SUFFIXES = (".opt-1.pyc", ".opt-2.pyc", ".a")
_DIRECTORIES = ("dev", "etc", "proc", "run", "sys", "tmp")
_LIST_MODULES = """
import sys
import uvloop, alcove.processes.apiserver, alcove.processes.verbs.apiserver, alcove.store.etcd
for name, module in list(sys.modules.items()):
    if "." not in name and name not in sys.stdlib_module_names:
        # A namespace package, such as protobuf's, has a path and no file.
        print(*getattr(module, "__path__", (getattr(module, "__file__", None) or "",)), sep="\\n")
"""


def files() -> list[Path]:
    """All files of the installation that the API server needs, sorted; without the shared libraries of the system."""
    found = {Path(sys.executable), *kubernetes_schemas.package_files(), *_tree(_PACKAGE)}
    found |= {path for path in (Path(sys.prefix, "pyvenv.cfg"),) if path.exists()}
    found.update(_tree(Path(sysconfig.get_path("stdlib"))))
    command = [sys.executable, "-c", _LIST_MODULES]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\n")
    for path in {Path(each) for each in listed if each}:
        found.update(_tree(path) if path.is_dir() else (path,))
    return sorted(found)


def build(paths: Iterable[Path], rootfs: Path) -> None:
    """Puts the files and the shared libraries that they need into the empty directory `rootfs`."""
    rootfs.chmod(0o755)
    for name in _DIRECTORIES:
        (rootfs / name).mkdir()
    (rootfs / "tmp").chmod(0o1777)
    for name, text in builtin.FILES.items():
        (rootfs / name).write_text(text)
    wanted = {*paths}
    wanted |= node_files.libraries(
        path for path in wanted if ".so" in path.suffixes or path == Path(sys.executable)
    )
    for path in sorted(wanted):
        node_files.place(path.resolve(), rootfs / path.relative_to("/"))


def _tree(directory: Path) -> Iterator[Path]:
    for parent, directories, names in os.walk(directory):
        directories[:] = [each for each in directories if not each.startswith(_UNUSED)]
        yield from (Path(parent, name) for name in names if not name.endswith(_UNUSED_SUFFIXES))

"""The image `alcove/alcove`, built from this node's own installation: Python, this package and what it requires.

Ring0 runs the API servers of dedicated tenants from it, so that no registry is needed. Files have the same paths as on
the node. They are linked if the image store is on the same file system, and copied otherwise.
"""

import errno
import hashlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path

import alcove
from alcove.agent.images import builtin
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
_LIBRARY = re.compile(r"(/\S+) \(0x")
_DIRECTORIES = ("dev", "etc", "proc", "run", "sys", "tmp")
_LIST_MODULES = """
import sys
import uvloop, alcove.processes.apiserver, alcove.processes.verbs.apiserver
for name, module in list(sys.modules.items()):
    if "." not in name and name not in sys.stdlib_module_names and getattr(module, "__file__", None):
        print(*getattr(module, "__path__", (module.__file__,)), sep="\\n")
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


def digest(paths: Iterable[Path]) -> str:
    """Of the files' names, sizes and times: reading them all would take too long for each start of a pod."""
    checksum = hashlib.sha256()
    for path in paths:
        state = path.stat()
        checksum.update(f"{path}\0{state.st_size}\0{state.st_mtime_ns}\0".encode())
    return f"sha256:{checksum.hexdigest()}"


def build(paths: Iterable[Path], rootfs: Path) -> None:
    """Puts the files and the shared libraries that they need into the empty directory `rootfs`."""
    rootfs.chmod(0o755)
    for name in _DIRECTORIES:
        (rootfs / name).mkdir()
    (rootfs / "tmp").chmod(0o1777)
    for name, text in builtin.FILES.items():
        (rootfs / name).write_text(text)
    wanted = {*paths}
    wanted |= _libraries(path for path in wanted if ".so" in path.suffixes or path == Path(sys.executable))
    for path in sorted(wanted):
        _place(path.resolve(), rootfs / path.relative_to("/"))


def _tree(directory: Path) -> Iterator[Path]:
    for parent, directories, names in os.walk(directory):
        directories[:] = [each for each in directories if not each.startswith(_UNUSED)]
        yield from (Path(parent, name) for name in names if not name.endswith(_UNUSED_SUFFIXES))


def _libraries(programs: Iterable[Path]) -> set[Path]:
    """The shared libraries that the programs and extension modules are linked to."""
    command = ["ldd", *map(str, programs)]
    # An extension module that needs another one's libraries makes ldd fail, but not the installation.
    linked = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    return {Path(os.path.normpath(each)) for each in _LIBRARY.findall(linked)}


def _place(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
    if target.exists():
        return
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno not in (errno.EXDEV, errno.EPERM, errno.EMLINK):
            raise
        shutil.copy2(source, target)

"""Files of the node that become files of an image, with the same paths: linked if the image store is on the same file
system, and copied otherwise."""

import errno
import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

_LIBRARY = re.compile(r"(/\S+) \(0x")


def digest(paths: Iterable[Path]) -> str:
    """Of the files' names, sizes and times: reading them all would take too long for each start of a pod."""
    checksum = hashlib.sha256()
    for path in paths:
        state = path.stat()
        checksum.update(f"{path}\0{state.st_size}\0{state.st_mtime_ns}\0".encode())
    return f"sha256:{checksum.hexdigest()}"


def libraries(programs: Iterable[Path]) -> set[Path]:
    """The shared libraries that the programs and extension modules are linked to."""
    command = ["ldd", *map(str, programs)]
    # An extension module that needs another one's libraries makes ldd fail, but not the installation.
    linked = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    return {Path(os.path.normpath(each)) for each in _LIBRARY.findall(linked)}


def place(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
    if target.exists():
        return
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno not in (errno.EXDEV, errno.EPERM, errno.EMLINK):
            raise
        shutil.copy2(source, target)

"""An image archive with this machine's Python and what some of its modules need, so that pods can run a program of a
test: a TLS server, for example, which busybox does not have.

archive = write(directory / "python.tar", ("http.server", "ssl", "json"))
asyncio.run(commands.load(node.data / "images", archive))
pod = {"containers": [{"image": NAME, "command": [PROGRAM, "-c", …]}]}
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import subprocess
import sys
import tarfile
from collections.abc import Iterable, Sequence
from pathlib import Path

import orjson

NAME = "alcove.test/python:latest"
PROGRAM = str(Path(sys.base_prefix, "bin", "python3"))
_DIRECTORIES = ("tmp", "dev", "proc", "sys", "etc")
_LIST = """
import sys
sys.path += filter(None, sys.argv[1].split(":"))
for name in sys.argv[2:]: __import__(name)
import encodings.idna, encodings.latin_1, encodings.ascii
for each in list(sys.modules.values()):
    # The compiled files too: otherwise a pod compiles all modules each time that it starts.
    for path in filter(None, (getattr(each, "__file__", None), getattr(each, "__cached__", None))): print(path)
"""


def write(
    archive: Path, modules: Sequence[str], packages: Path | None = None, data_of: Sequence[str] = ()
) -> Path:
    """Write the archive, as `docker save` would. `packages` is a directory of installed packages, if some of the
    modules are there; of those in `data_of`, all files are taken."""
    files = _files(modules, packages)
    if packages is not None:
        files |= {each for name in data_of for each in (packages / name).rglob("*") if each.is_file()}
    layer = _layer(files)
    environment = [
        f"PYTHONHOME={sys.base_prefix}",
        "PYTHONUNBUFFERED=1",
        "USER=root",
        f"PYTHONPATH={packages or ''}",
    ]
    config = orjson.dumps(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": {"Env": environment, "Cmd": [PROGRAM]},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
        }
    )
    config_name = f"{hashlib.sha256(config).hexdigest()}.json"
    manifest = [{"Config": config_name, "RepoTags": [NAME], "Layers": ["layer.tar"]}]
    with tarfile.open(archive, "w") as tar:
        for name, data in (
            (config_name, config),
            ("layer.tar", layer),
            ("manifest.json", orjson.dumps(manifest)),
        ):
            tar.addfile(_entry(name, len(data)), io.BytesIO(data))
    return archive


def _files(modules: Sequence[str], packages: Path | None) -> set[Path]:
    """The files that the modules are loaded from, and the libraries that they are linked to."""
    command = [PROGRAM, "-I", "-S", "-c", _LIST, str(packages or ""), *modules]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    files = {path for each in loaded if (path := Path(each)).exists()} | {Path(PROGRAM)}
    binaries = [each for each in files if each.suffix == ".so" or each == Path(PROGRAM)]
    linked = subprocess.run(["ldd", *map(str, binaries)], capture_output=True, text=True, check=True).stdout
    return files | {Path(each) for each in re.findall(r"(/\S+)(?: \(0x)", linked)}


def _layer(files: Iterable[Path]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        parents = {parent for path in files for parent in path.parents if parent != Path("/")}
        for name in sorted({*(str(each)[1:] for each in parents), *_DIRECTORIES}):
            entry = _entry(name, 0)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if name == "tmp" else 0o755
            tar.addfile(entry)
        for path in sorted(files):
            data = path.read_bytes()
            entry = _entry(str(path)[1:], len(data))
            entry.mtime = int(path.stat().st_mtime)  # Compiled files are for sources of this time.
            entry.mode = 0o755 if os.access(path, os.X_OK) else 0o644
            tar.addfile(entry, io.BytesIO(data))
    return buffer.getvalue()


def _entry(name: str, size: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.size = size
    return entry

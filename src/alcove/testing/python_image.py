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
for name in sys.argv[1:]: __import__(name)
import encodings.idna, encodings.latin_1, encodings.ascii
for each in list(sys.modules.values()):
    if getattr(each, "__file__", None): print(each.__file__)
"""


def write(archive: Path, modules: Sequence[str]) -> Path:
    """Write the archive, as `docker save` would."""
    layer = _layer(_files(modules))
    config = orjson.dumps(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": {"Env": [f"PYTHONHOME={sys.base_prefix}", "PYTHONUNBUFFERED=1"], "Cmd": [PROGRAM]},
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


def _files(modules: Sequence[str]) -> set[Path]:
    """The files that the modules are loaded from, and the libraries that they are linked to."""
    command = [PROGRAM, "-I", "-S", "-c", _LIST, *modules]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    files = {Path(each) for each in loaded} | {Path(PROGRAM)}
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
            entry.mode = 0o755 if os.access(path, os.X_OK) else 0o644
            tar.addfile(entry, io.BytesIO(data))
    return buffer.getvalue()


def _entry(name: str, size: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.size = size
    return entry

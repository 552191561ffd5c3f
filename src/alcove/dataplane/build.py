"""Compiles the C programs to one object, cached by the content of its sources: `python -m alcove.dataplane.build`.

A wheel has the object beside the sources (`setup.py` puts it there). An object's name holds the digest of its sources,
so one that was made of other sources is never found. The compiler is clang (any from 14 on), the headers those of
libbpf; both are Debian packages.
"""

import hashlib
import os
import platform
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

from alcove.dataplane.errors import BuildFailed, CompilerMissing

COMPILERS = ("clang-19", "clang-18", "clang-17", "clang-16", "clang")
FLAGS = ("-O2", "-g", "-Wall", "-Werror", "-Wno-unused-function", "-Wno-address-of-packed-member")
INSTALL = "install clang and libbpf-dev"


def sources_folder() -> Path:
    return Path(__file__).resolve().parents[1] / "bpf"


def caches() -> list[Path]:
    """Where objects may be kept, the best first: in a checkout beside everything else that is built."""
    checkout = Path(__file__).resolve().parents[3]
    found = [checkout / "build" / "bpf"] if (checkout / "pyproject.toml").exists() else []
    if "XDG_CACHE_HOME" in os.environ:
        found.append(Path(os.environ["XDG_CACHE_HOME"]) / "alcove" / "bpf")
    found.append(Path("/var/cache/alcove/bpf"))
    if "HOME" in os.environ:
        found.append(Path(os.environ["HOME"]) / ".cache" / "alcove" / "bpf")
    found.append(Path(tempfile.gettempdir()) / f"alcove-bpf-{os.geteuid()}")
    return found


def default_cache() -> Path:
    """The first of them that can be written, and by nobody else: what lies there goes into the kernel."""
    tried = caches()
    for folder in tried:
        try:
            folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(folder, os.W_OK) and _is_private(folder):
            return folder
    raise BuildFailed(f"no folder for compiled programs (tried {', '.join(map(str, tried))})")


def _is_private(folder: Path) -> bool:
    found = folder.stat()
    return found.st_uid == os.geteuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def digest(folder: Path) -> str:
    """Names the object by everything that goes into it."""
    content = hashlib.blake2b(" ".join(FLAGS).encode(), digest_size=8)
    for path in sorted(folder.rglob("*.[ch]")):
        content.update(path.name.encode() + b"\0" + path.read_bytes())
    return content.hexdigest()


def object_name(folder: Path) -> str:
    return f"alcove-{digest(folder)}.o"


def shipped_object() -> Path | None:
    """The object of the installed package; None in a checkout, and where it was made of other sources."""
    folder = sources_folder()
    path = folder / object_name(folder)
    return path if path.exists() else None


def find_object() -> Path | None:
    """An object that is there already, shipped or compiled before."""
    if shipped := shipped_object():
        return shipped
    path = default_cache() / object_name(sources_folder())
    return path if path.exists() else None


def find_compiler() -> str:
    for name in COMPILERS:
        if found := shutil.which(name):
            return found
    raise CompilerMissing(
        f"the data plane's programs need a compiler, and there is no {COMPILERS[-1]}: {INSTALL}"
    )


def compile_object(folder: Path, target: Path) -> None:
    multiarch = f"-I/usr/include/{platform.machine()}-linux-gnu"
    # Written beside and renamed: two builds at once leave one whole object.
    half = target.with_suffix(f".{os.getpid()}.tmp")
    command = [find_compiler(), *FLAGS, "-target", "bpf", "-mcpu=v3", multiarch, f"-I{folder}"]
    # Debug information names files as they are below the folder: the same object wherever it is compiled.
    command += [f"-ffile-prefix-map={folder}=.", "-fdebug-compilation-dir=."]
    command += ["-c", str(folder / "alcove.c"), "-o", str(half)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        half.unlink(missing_ok=True)
        if "bpf_helpers.h' file not found" in done.stderr:
            raise CompilerMissing(f"the data plane's programs need libbpf's headers: {INSTALL}")
        raise BuildFailed(f"the data plane's programs do not compile:\n{done.stderr}")
    half.rename(target)


def build(cache: Path | None = None) -> Path:
    """The path of the object in the cache, compiled if its sources have changed."""
    folder = sources_folder()
    cache = cache or default_cache()
    target = cache / object_name(folder)
    if not target.exists():
        cache.mkdir(parents=True, exist_ok=True)
        compile_object(folder, target)
    return target


def main() -> int:
    try:
        sys.stdout.write(f"{build()}\n")
    except BuildFailed as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

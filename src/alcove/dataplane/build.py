"""Compiles the C programs to one object, cached by the content of its sources: `python -m
alcove.dataplane.build`.

A wheel contains the object beside the sources (see `setup.py`). An object's name contains the digest of its
sources, so an object of other sources is never used. The compiler is clang 14 or newer, the headers are
libbpf's; both are Debian packages.
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
    """Candidate cache directories in order of preference; in a checkout, its build directory is the first."""
    checkout = Path(__file__).resolve().parents[3]
    directories = [checkout / "build" / "bpf"] if (checkout / "pyproject.toml").exists() else []
    if "XDG_CACHE_HOME" in os.environ:
        directories.append(Path(os.environ["XDG_CACHE_HOME"]) / "alcove" / "bpf")
    directories.append(Path("/var/cache/alcove/bpf"))
    if "HOME" in os.environ:
        directories.append(Path(os.environ["HOME"]) / ".cache" / "alcove" / "bpf")
    directories.append(Path(tempfile.gettempdir()) / f"alcove-bpf-{os.geteuid()}")
    return directories


def default_cache() -> Path:
    """The first cache directory that only this user can write, because its objects are loaded into the
    kernel. Raises BuildFailed."""
    tried = caches()
    for directory in tried:
        try:
            directory.mkdir(mode=0o755, parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(directory, os.W_OK) and _is_private(directory):
            return directory
    raise BuildFailed(f"no writable directory for compiled programs (tried {', '.join(map(str, tried))})")


def _is_private(directory: Path) -> bool:
    state = directory.stat()
    return state.st_uid == os.geteuid() and not state.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def digest(directory: Path) -> str:
    """The digest of the sources and the compiler flags."""
    content = hashlib.blake2b(" ".join(FLAGS).encode(), digest_size=8)
    for path in sorted(directory.rglob("*.[ch]")):
        content.update(path.name.encode() + b"\0" + path.read_bytes())
    return content.hexdigest()


def object_name(directory: Path) -> str:
    return f"alcove-{digest(directory)}.o"


def shipped_object() -> Path | None:
    """The object of the installed package; None in a checkout, or if it was compiled from other sources."""
    directory = sources_folder()
    path = directory / object_name(directory)
    return path if path.exists() else None


def find_object() -> Path | None:
    """An existing object, shipped or compiled before; None if there is none."""
    if shipped := shipped_object():
        return shipped
    path = default_cache() / object_name(sources_folder())
    return path if path.exists() else None


def find_compiler() -> str:
    for name in COMPILERS:
        if path := shutil.which(name):
            return path
    raise CompilerMissing(
        f"{COMPILERS[-1]} not found, required to compile the data plane's programs: {INSTALL}"
    )


def compile_object(directory: Path, target: Path) -> None:
    multiarch = f"-I/usr/include/{platform.machine()}-linux-gnu"
    # Written to a temporary file and renamed, so that concurrent builds leave a complete object.
    temporary = target.with_suffix(f".{os.getpid()}.tmp")
    command = [find_compiler(), *FLAGS, "-target", "bpf", "-mcpu=v3", multiarch, f"-I{directory}"]
    # Relative paths in the debug information make the object reproducible in any directory.
    command += [f"-ffile-prefix-map={directory}=.", "-fdebug-compilation-dir=."]
    command += ["-c", str(directory / "alcove.c"), "-o", str(temporary)]
    completed = subprocess.run(command, capture_output=True, text=True, check=False)
    if completed.returncode:
        temporary.unlink(missing_ok=True)
        if "bpf_helpers.h' file not found" in completed.stderr:
            raise CompilerMissing(
                f"libbpf headers not found, required to compile the data plane's programs: {INSTALL}"
            )
        raise BuildFailed(f"failed to compile the data plane's programs:\n{completed.stderr}")
    temporary.rename(target)


def build(cache: Path | None = None) -> Path:
    """The path of the object in the cache; compiles it if the sources have changed. Raises BuildFailed."""
    directory = sources_folder()
    cache = cache or default_cache()
    target = cache / object_name(directory)
    if not target.exists():
        cache.mkdir(parents=True, exist_ok=True)
        compile_object(directory, target)
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

"""Compiles bpf/ to one object, cached by the content of its sources: `python -m alcove.dataplane.build`.

The compiler is Debian's clang (any from 14 on); `packages.txt` beside this file lists what to install.
"""

import hashlib
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

from alcove.dataplane.errors import BuildFailed

COMPILERS = ("clang-19", "clang-18", "clang-17", "clang-16", "clang")
FLAGS = ("-O2", "-g", "-Wall", "-Werror", "-Wno-unused-function", "-Wno-address-of-packed-member")


def sources_folder() -> Path:
    """Where the C sources are: in a checkout beside `src`, in an installation beside this package."""
    checkout = Path(__file__).resolve().parents[3] / "bpf"
    return checkout if checkout.is_dir() else Path(__file__).resolve().parent / "bpf"


def default_cache() -> Path:
    folder = sources_folder().parent
    if os.access(folder, os.W_OK) and (folder / "pyproject.toml").exists():
        return folder / "build" / "bpf"
    return Path(os.environ.get("XDG_CACHE_HOME", "/var/cache")) / "alcove" / "bpf"


def digest(folder: Path) -> str:
    """Names the object by everything that goes into it."""
    content = hashlib.blake2b(" ".join(FLAGS).encode(), digest_size=8)
    for path in sorted(folder.rglob("*.[ch]")):
        content.update(path.name.encode() + b"\0" + path.read_bytes())
    return content.hexdigest()


def find_compiler() -> str:
    for name in COMPILERS:
        if found := shutil.which(name):
            return found
    raise BuildFailed(f"no clang found (tried {', '.join(COMPILERS)})")


def compile_object(folder: Path, target: Path) -> None:
    multiarch = f"-I/usr/include/{platform.machine()}-linux-gnu"
    # Written beside and renamed: two builds at once leave one whole object.
    half = target.with_suffix(f".{os.getpid()}.tmp")
    command = [find_compiler(), *FLAGS, "-target", "bpf", "-mcpu=v3", multiarch, f"-I{folder}"]
    command += ["-c", str(folder / "alcove.c"), "-o", str(half)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        half.unlink(missing_ok=True)
        raise BuildFailed(f"the data plane's programs do not compile:\n{done.stderr}")
    half.rename(target)


def build(cache: Path | None = None) -> Path:
    """The object's path, compiled if its sources have changed."""
    folder = sources_folder()
    cache = cache or default_cache()
    target = cache / f"alcove-{digest(folder)}.o"
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

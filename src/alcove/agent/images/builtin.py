"""The built-in image, built from the machine's static busybox, so that pods can run without a registry."""

import hashlib
import shutil
import subprocess
from pathlib import Path

from alcove.agent.images.model import ToolMissing
from alcove.agent.runtime.config import ImageConfig

NAME = "alcove/busybox:latest"
CONFIG = ImageConfig(command=("sh",), env=("PATH=/bin",))
_DIRECTORIES = ("bin", "dev", "etc", "home", "proc", "root", "run", "sys", "tmp", "var/www")
FILES = {
    "etc/passwd": "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/home:/bin/false\n",
    "etc/group": "root:x:0:\nnobody:x:65534:\n",
    "etc/nsswitch.conf": "hosts: files dns\n",
}


def find() -> Path:
    """The machine's busybox. Raises ToolMissing if there is none that is statically linked."""
    path = shutil.which("busybox")
    if path is None:
        raise ToolMissing("busybox-static is not installed")
    program = Path(path).resolve()
    if b"/ld-linux" in program.read_bytes():
        raise ToolMissing(f"{program} needs shared libraries; install busybox-static")
    return program


def digest(program: Path) -> str:
    checksum = hashlib.sha256(program.read_bytes())
    for name, text in sorted(FILES.items()):
        checksum.update(f"{name}\0{text}\0".encode())
    return f"sha256:{checksum.hexdigest()}"


def build(program: Path, rootfs: Path) -> None:
    """Writes the image's files into the empty directory `rootfs`."""
    rootfs.chmod(0o755)  # Users other than root must be able to enter the container's root directory.
    for name in _DIRECTORIES:
        (rootfs / name).mkdir(parents=True)
    (rootfs / "tmp").chmod(0o1777)
    (rootfs / "root").chmod(0o700)
    for name, text in FILES.items():
        (rootfs / name).write_text(text)
    shutil.copy(program, rootfs / "bin/busybox")
    (rootfs / "bin/busybox").chmod(0o755)
    completed = subprocess.run([program, "--list"], capture_output=True, text=True, check=True)
    for applet in completed.stdout.split():
        if applet != "busybox":
            (rootfs / "bin" / applet).symlink_to("busybox")

"""The built-in image: made on the machine from its own busybox, so that a pod can run without any registry."""

import hashlib
import shutil
import subprocess
from pathlib import Path

from alcove.agent.images.model import ToolMissing
from alcove.agent.runtime.config import ImageConfig
from alcove.agent.runtime.users import Accounts

NAME = "alcove/busybox:latest"
CONFIG = ImageConfig(command=("sh",), env=("PATH=/bin",))
_FOLDERS = ("bin", "dev", "etc", "home", "proc", "root", "run", "sys", "tmp", "var/www")
_FILES = {
    "etc/passwd": "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/home:/bin/false\n",
    "etc/group": "root:x:0:\nnobody:x:65534:\n",
    "etc/nsswitch.conf": "hosts: files dns\n",
}
ACCOUNTS = Accounts(_FILES["etc/passwd"], _FILES["etc/group"])


def find() -> Path:
    """The machine's busybox. ToolMissing: there is none that stands alone."""
    found = shutil.which("busybox")
    if found is None:
        raise ToolMissing("busybox-static is not installed")
    program = Path(found).resolve()
    if b"/ld-linux" in program.read_bytes():
        raise ToolMissing(f"{program} needs shared libraries; install busybox-static")
    return program


def digest(program: Path) -> str:
    made = hashlib.sha256(program.read_bytes())
    for name, text in sorted(_FILES.items()):
        made.update(f"{name}\0{text}\0".encode())
    return f"sha256:{made.hexdigest()}"


def build(program: Path, rootfs: Path) -> None:
    """The image's files in an empty directory."""
    rootfs.chmod(0o755)  # The container's root directory: other users than root must get in.
    for name in _FOLDERS:
        (rootfs / name).mkdir(parents=True)
    (rootfs / "tmp").chmod(0o1777)
    (rootfs / "root").chmod(0o700)
    for name, text in _FILES.items():
        (rootfs / name).write_text(text)
    shutil.copy(program, rootfs / "bin/busybox")
    (rootfs / "bin/busybox").chmod(0o755)
    listed = subprocess.run([program, "--list"], capture_output=True, text=True, check=True)
    for applet in listed.stdout.split():
        if applet != "busybox":
            (rootfs / "bin" / applet).symlink_to("busybox")

"""What tests need of this machine: an empty answer means that it is there, words say what is missing.

Only what is known to be a lack is called one: a tool that is not installed, a right that is not had, a kernel built
without a feature. Everything else that goes wrong here is raised: no test is passed over because of a defect, or of
somebody else who looks at the same moment. Nothing is left behind, and every process uses names of its own.
"""

import errno
import fcntl
import os
import shutil
from functools import cache
from pathlib import Path

from alcove.dataplane import bpf as kernel_bpf
from alcove.dataplane import namespaces as kernel_namespaces
from alcove.dataplane.build import build
from alcove.dataplane.errors import CompilerMissing, KernelRefused, Unsupported

LACKS = frozenset((errno.EPERM, errno.EACCES, errno.ENOSYS, errno.EOPNOTSUPP))
"""Failures by which a kernel says that it may not, or cannot, do something at all."""
LOOP_CONTROL = Path("/dev/loop-control")
LOOP_CTL_GET_FREE = 0x4C82
MAP_HASH = 1


def root() -> str:
    return "" if os.geteuid() == 0 else "needs root"


def tools(*names: str) -> str:
    missing = [name for name in names if shutil.which(name) is None]
    return f"needs {', '.join(missing)}" if missing else ""


@cache
def namespaces() -> str:
    """Network namespaces can be made."""
    if why := root():
        return why
    if not Path("/proc/self/ns/net").exists():
        return "needs a kernel with network namespaces"
    name = f"alcove-probe-{os.getpid()}"
    try:
        os.close(kernel_namespaces.make(name))
    except KernelRefused as error:
        return _lack("network namespaces", error)
    finally:
        kernel_namespaces.remove(name)
    return ""


@cache
def bpf() -> str:
    """Maps can be made, and the data plane's programs compiled."""
    try:
        kernel_bpf.create_map("alcove_probe", MAP_HASH, 4, 4, 1).close()
        build()
    except (Unsupported, CompilerMissing) as error:
        return f"needs BPF: {error}"
    except KernelRefused as error:
        return _lack("BPF", error)
    return ""


@cache
def loop_devices() -> str:
    try:
        control = os.open(LOOP_CONTROL, os.O_RDWR | os.O_CLOEXEC)
    except (FileNotFoundError, PermissionError) as error:
        return f"needs loop devices: {error}"
    try:
        fcntl.ioctl(control, LOOP_CTL_GET_FREE)
    except PermissionError as error:
        return f"needs loop devices: {error}"
    finally:
        os.close(control)
    return root() or tools("losetup", "mount")


def _lack(what: str, error: KernelRefused) -> str:
    if error.errno not in LACKS:
        raise error
    return f"needs {what}: {error}"

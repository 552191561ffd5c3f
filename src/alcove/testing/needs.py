"""What tests need of this machine: functions return an empty string, or a message that says what is missing.

Only known gaps are reported: a tool that is not installed, a missing privilege, a kernel without a feature.
All other errors are raised: no test is skipped because of a defect, or because of a concurrent check. Nothing
is left behind, and every process uses unique names.
"""

import errno
import fcntl
import json
import os
import shutil
import subprocess
from functools import cache
from pathlib import Path

from alcove.dataplane import bpf as kernel_bpf
from alcove.dataplane import namespaces as kernel_namespaces
from alcove.dataplane.build import build
from alcove.dataplane.errors import CompilerMissing, KernelRefused, Unsupported

LACKS = frozenset((errno.EPERM, errno.EACCES, errno.ENOSYS, errno.EOPNOTSUPP))
"""Error numbers of missing permissions or kernel features."""
LOOP_CONTROL = Path("/dev/loop-control")
LOOP_CTL_GET_FREE = 0x4C82
MAP_HASH = 1


def root() -> str:
    return "" if os.geteuid() == 0 else "needs root"


def tools(*names: str) -> str:
    missing = [name for name in names if shutil.which(name) is None]
    return f"needs {', '.join(missing)}" if missing else ""


@cache
def kubectl(minor_min: int) -> str:
    """kubectl is installed, of version 1.`minor_min` or newer."""
    if why := tools("kubectl"):
        return why
    command = ["kubectl", "version", "--client", "--output=json"]
    version = json.loads(subprocess.check_output(command))["clientVersion"]
    minor = int(version["minor"].rstrip("+"))
    return "" if minor >= minor_min else f"needs kubectl 1.{minor_min} or newer, not {version['gitVersion']}"


@cache
def namespaces() -> str:
    """Network namespaces can be created."""
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
    """Maps can be created, and the data plane's programs can be compiled."""
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

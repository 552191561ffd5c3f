"""What can go wrong in the data plane.

DataPlaneError
├── BuildFailed       the C programs do not compile here
│   └── CompilerMissing   for want of a compiler, or of libbpf's headers
├── ProgramRejected   the kernel's verifier refused a program; the message ends with its reason
├── KernelRefused     a system or netlink call failed: `errno` says why
│   └── MapFull       a map has no room: `map_name`
└── Unsupported       this machine lacks the rights or the features
"""

import os


class DataPlaneError(Exception):
    pass


class BuildFailed(DataPlaneError):
    pass


class CompilerMissing(BuildFailed):
    pass


class ProgramRejected(DataPlaneError):
    pass


class KernelRefused(DataPlaneError):
    def __init__(self, what: str, errno: int) -> None:
        super().__init__(f"{what}: {os.strerror(errno)}")
        self.errno = errno


class MapFull(KernelRefused):
    def __init__(self, map_name: str, errno: int) -> None:
        super().__init__(f"map {map_name} is full", errno)
        self.map_name = map_name


class Unsupported(DataPlaneError):
    pass

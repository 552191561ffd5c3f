"""The errors of the data plane.

DataPlaneError
├── BuildFailed           the C programs could not be compiled
│   └── CompilerMissing   the compiler or libbpf's headers are not installed
├── ProgramRejected       the kernel's verifier rejected a program; the message ends with its log
├── KernelRefused         a system or netlink call failed with `errno`
│   └── MapFull           the map `map_name` is full
├── RulesRefused          nftables refused rules
└── Unsupported           this machine lacks privileges or features
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
    def __init__(self, description: str, errno: int) -> None:
        super().__init__(f"{description}: {os.strerror(errno)}")
        self.errno = errno


class MapFull(KernelRefused):
    def __init__(self, map_name: str, errno: int) -> None:
        super().__init__(f"map {map_name} is full", errno)
        self.map_name = map_name


class RulesRefused(DataPlaneError):
    def __init__(self, namespace: str, reason: str) -> None:
        super().__init__(f"failed to load nftables rules of {namespace}: {reason}")


class Unsupported(DataPlaneError):
    pass

"""Settings (sysctls) of a pod's network, set from outside: for pods whose own root may not."""

import os
from collections.abc import Mapping
from pathlib import Path

from alcove.dataplane.namespaces import inside


def apply(namespace: str, settings: Mapping[str, str]) -> None:
    """In the namespace at that path. Raises OSError."""
    descriptor = os.open(namespace, os.O_RDONLY | os.O_CLOEXEC)
    try:
        # What /proc/sys/net shows is of the network namespace of who looks.
        with inside(descriptor):
            for name, value in settings.items():
                _path(name).write_text(value)
    finally:
        os.close(descriptor)


def _path(name: str) -> Path:
    """A name is written with dots, or with slashes where a part of it has dots."""
    return Path("/proc/sys", name if "/" in name else name.replace(".", "/"))

"""Sets a pod's network sysctls from the host: for pods in a user namespace, whose root may not set them."""

import os
from collections.abc import Mapping
from pathlib import Path

from alcove.dataplane.namespaces import inside


def apply(namespace: str, settings: Mapping[str, str]) -> None:
    """Sets them in the network namespace at that path. Raises OSError."""
    descriptor = os.open(namespace, os.O_RDONLY | os.O_CLOEXEC)
    try:
        # /proc/sys/net shows the network namespace of the reading thread.
        with inside(descriptor):
            for name, value in settings.items():
                _path(name).write_text(value)
    finally:
        os.close(descriptor)


def _path(name: str) -> Path:
    """Names use dots as separators, or slashes if a component contains dots."""
    return Path("/proc/sys", name if "/" in name else name.replace(".", "/"))

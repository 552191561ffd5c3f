"""This machine's addresses: which one a server sees, and on which device it is."""

from __future__ import annotations

import shutil
import socket
import subprocess
from urllib.parse import urlsplit

from alcove.cli.errors import CliError


def towards(server: str) -> str:
    """The address from which this machine would speak to the server. Nothing is sent."""
    url = urlsplit(server)
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((url.hostname or "", url.port or 443))
            return str(probe.getsockname()[0])
    except OSError as error:
        raise CliError(f"there is no way to {server}: {error.strerror or error}; give --address") from error


def device_of(address: str) -> str:
    """The network device that has the address."""
    program = shutil.which("ip")
    if program is None:
        raise CliError("`ip` is not installed (package iproute2); give --underlay")
    message = subprocess.run([program, "-o", "address"], capture_output=True, text=True, check=False).stdout
    for line in message.splitlines():
        fields = line.split()
        if len(fields) > 3 and fields[3].partition("/")[0] == address:
            return fields[1].partition("@")[0]
    raise CliError(f"no device of this machine has the address {address}; give --underlay")

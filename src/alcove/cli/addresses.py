"""This machine's addresses: the source address towards a server, and the device that has it."""

from __future__ import annotations

import shutil
import socket
import subprocess
from urllib.parse import urlsplit

from alcove.cli.errors import CliError


def towards(server: str) -> str:
    """The source address of packets to the server. No packet is sent: connecting UDP only looks up the
    route."""
    url = urlsplit(server)
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((url.hostname or "", url.port or 443))
            return str(probe.getsockname()[0])
    except OSError as error:
        raise CliError(f"no route to {server}: {error.strerror or error}; set --address") from error


def device_of(address: str) -> str:
    """The network device that has the address."""
    program = shutil.which("ip")
    if program is None:
        raise CliError("`ip` is not installed (package iproute2); set --underlay")
    output = subprocess.run([program, "-o", "address"], capture_output=True, text=True, check=False).stdout
    for line in output.splitlines():
        fields = line.split()
        if len(fields) > 3 and fields[3].partition("/")[0] == address:
            return fields[1].partition("@")[0]
    raise CliError(f"no network device has the address {address}; set --underlay")

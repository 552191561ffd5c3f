"""`alcove capture`: a pod's packets, in a file that Wireshark and tcpdump read."""

from __future__ import annotations

import ctypes
import ctypes.util
import shutil
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer

from alcove.api.capture_bounds import BYTES_DEFAULT, BYTES_MAX, PACKET_BYTES_MAX, SECONDS_DEFAULT, SECONDS_MAX
from alcove.cli.errors import CliError, ExitCode, exit_on_error
from alcove.cli.options import KubeconfigOption

if TYPE_CHECKING:
    from alcove.api.objects import Object

COMPILE_SECONDS_MAX = 10.0
_ETHERNET = 1
_ANY_NETMASK = 0xFFFFFFFF


def capture(
    pod: Annotated[str, typer.Argument(help="The pod: NAME, or NAMESPACE/NAME.", show_default=False)],
    output: Annotated[
        str,
        typer.Option(
            "--output", "-o", help="The file to write, in the format pcapng; - for standard output."
        ),
    ],
    expression: Annotated[
        str, typer.Option("--filter", help="Only these packets, as tcpdump writes it: 'tcp port 80'.")
    ] = "",
    tenant: Annotated[
        str, typer.Option("--tenant", "-t", help="The pod's tenant; default: the user's.")
    ] = "",
    namespace: Annotated[str, typer.Option("--namespace", "-n", help="The pod's namespace.")] = "default",
    seconds: Annotated[
        int, typer.Option(min=1, max=SECONDS_MAX, help="Stop after this time.")
    ] = SECONDS_DEFAULT,
    size: Annotated[
        int, typer.Option("--bytes", min=1, max=BYTES_MAX, help="Stop when the file has this size.")
    ] = BYTES_DEFAULT,
    packet_bytes: Annotated[
        int, typer.Option(min=1, max=PACKET_BYTES_MAX, help="Capture this much of each packet.")
    ] = 65_535,
    via: KubeconfigOption = None,
) -> None:
    """Capture a pod's packets as the pod sees them, until a bound is reached or it is interrupted."""
    from alcove.cli.session import CliSession
    from alcove.client.resources import CAPTURES

    with exit_on_error():
        within, _, name = pod.rpartition("/")
        spec: Object = {"pod": name, "seconds": seconds, "bytes": size, "packetBytes": packet_bytes}
        if expression:
            spec["filter"] = compiled(expression)
        of_tenant = f"/tenants/{tenant}" if tenant else ""
        path = f"{CAPTURES.root}{of_tenant}/namespaces/{within or namespace}/captures"
        body = {"apiVersion": CAPTURES.api_version, "kind": CAPTURES.kind, "spec": spec}
        written = 0
        with _opened(output) as file:
            try:
                for data in CliSession(via).connection.stream("POST", path, body, seconds):
                    file.write(data)
                    written += len(data)
            except KeyboardInterrupt:
                pass  # What was written so far is a whole file.
            file.flush()
        typer.echo(f"{written} bytes written", err=True)


def _opened(output: str) -> nullcontext[BinaryIO] | BinaryIO:
    return nullcontext(sys.stdout.buffer) if output == "-" else Path(output).open("wb")


def compiled(expression: str) -> list[str]:
    """The filter's instructions: by libpcap, or by tcpdump. Raises CliError."""
    library = ctypes.util.find_library("pcap")
    if library:
        return by_library(ctypes.CDLL(library), expression)
    tcpdump = shutil.which("tcpdump")
    if not tcpdump:
        message = "a filter needs libpcap or tcpdump on this machine: install libpcap0.8, or capture without --filter"
        raise CliError(message, ExitCode.USAGE)
    command = [tcpdump, "-ddd", "-y", "EN10MB", "--", expression]
    done = subprocess.run(command, capture_output=True, text=True, timeout=COMPILE_SECONDS_MAX, check=False)
    if done.returncode:
        raise CliError(f"invalid filter: {done.stderr.strip()}", ExitCode.USAGE)
    return done.stdout.splitlines()[1:]


class _Program(ctypes.Structure):
    _fields_ = (("count", ctypes.c_uint), ("instructions", ctypes.c_void_p))


def by_library(pcap: ctypes.CDLL, expression: str) -> list[str]:
    """Raises CliError."""
    from alcove.api.captures import lines_of

    pcap.pcap_open_dead.restype = ctypes.c_void_p
    pcap.pcap_geterr.restype = ctypes.c_char_p
    handle = ctypes.c_void_p(pcap.pcap_open_dead(_ETHERNET, PACKET_BYTES_MAX))
    program = _Program()
    try:
        if pcap.pcap_compile(handle, ctypes.byref(program), expression.encode(), 1, _ANY_NETMASK) < 0:
            raise CliError(
                f"invalid filter: {pcap.pcap_geterr(handle).decode(errors='replace')}", ExitCode.USAGE
            )
        raw = ctypes.string_at(program.instructions, program.count * 8)
        pcap.pcap_freecode(ctypes.byref(program))
    finally:
        pcap.pcap_close(handle)
    return lines_of(raw)

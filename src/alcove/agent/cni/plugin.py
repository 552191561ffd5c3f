"""The CNI plugin that a container runtime executes: environment and configuration in, a result or an error
out.

It imports almost nothing, because it is started for every pod; it only forwards the request to the agent,
whose socket is in the configuration:

    {"cniVersion": "1.1.0", "name": "alcove", "type": "alcove-cni", "socket": "/var/lib/alcove/node/network/cni.sock"}
"""

import json
import os
import socket
import sys
from typing import Any

import alcove

VERSIONS = ("0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0")
RESPONSE_SECONDS_MAX = 30.0
RESPONSE_BYTES_MAX = 1 << 20
VARIABLES = ("CNI_COMMAND", "CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME", "CNI_ARGS", "CNI_PATH")

INCOMPATIBLE_VERSION = 1
BAD_ENVIRONMENT = 4
IO_FAILURE = 5
UNDECODABLE = 6
BAD_CONFIG = 7
NOT_AVAILABLE = 50


def main() -> int:
    if sys.argv[1:] == ["--version"]:
        sys.stdout.write(f"alcove-cni {alcove.__version__}\n")
        return 0
    config: dict[str, Any] = {}
    try:
        config = json.loads(sys.stdin.buffer.read() or b"{}")
        if not isinstance(config, dict):
            raise ValueError("not an object")
    except ValueError as error:
        return _print_result(
            _error("", UNDECODABLE, "invalid network configuration: not a JSON object", str(error))
        )
    command = os.environ.get("CNI_COMMAND", "")
    version = config.get("cniVersion")
    version = version if isinstance(version, str) else ""
    if command == "VERSION":
        return _print_result({"cniVersion": version or VERSIONS[-1], "supportedVersions": list(VERSIONS)})
    if version not in VERSIONS:
        message = f"cniVersion {version!r} is not supported; supported versions: {', '.join(VERSIONS)}"
        return _print_result(_error("", INCOMPATIBLE_VERSION, "incompatible CNI version", message))
    if not command:
        return _print_result(_error(version, BAD_ENVIRONMENT, "CNI_COMMAND is missing", ""))
    path = config.get("socket")
    if not isinstance(path, str) or not path:
        return _print_result(
            _error(version, BAD_CONFIG, "invalid network configuration: missing socket of the agent", "")
        )
    environment = {name: os.environ[name] for name in VARIABLES if name in os.environ}
    try:
        return _print_result(_call_agent(path, {"environment": environment, "config": config}))
    except (OSError, ValueError) as error:
        code = NOT_AVAILABLE if command == "STATUS" else IO_FAILURE
        return _print_result(_error(version, code, "failed to reach the node agent", str(error)))


def _call_agent(path: str, request: dict[str, Any]) -> dict[str, Any]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.settimeout(RESPONSE_SECONDS_MAX)
        sock.connect(path)
        sock.sendall(json.dumps(request).encode() + b"\n")
        sock.shutdown(socket.SHUT_WR)
        body = bytearray()
        while chunk := sock.recv(65536):
            body += chunk
            if len(body) > RESPONSE_BYTES_MAX:
                raise ValueError("response is too long")
    response = json.loads(body)
    if not isinstance(response, dict):
        raise ValueError("response is not a JSON object")
    return response


def _error(version: str, code: int, message: str, details: str) -> dict[str, Any]:
    return {"cniVersion": version or VERSIONS[-1], "code": code, "msg": message, "details": details}


def _print_result(result: dict[str, Any]) -> int:
    """Prints a result or an error to stdout and returns the exit code. An empty result is printed as
    nothing."""
    if result:
        sys.stdout.write(json.dumps(result) + "\n")
    return 1 if "code" in result else 0

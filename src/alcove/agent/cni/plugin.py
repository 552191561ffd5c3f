"""The program that a container runtime calls: environment and configuration in, a result or an error out.

It imports almost nothing, for it is started for every pod; all it decides is who is to be asked. The agent listens
on a socket that the configuration names:

    {"cniVersion": "1.1.0", "name": "alcove", "type": "alcove-cni", "socket": "/var/lib/alcove/node/network/cni.sock"}
"""

import json
import os
import socket
import sys
from typing import Any

import alcove

VERSIONS = ("0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0")
ANSWER_SECONDS_MAX = 30.0
ANSWER_BYTES_MAX = 1 << 20
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
        return _tell(_error("", UNDECODABLE, "the configuration is not JSON", str(error)))
    command = os.environ.get("CNI_COMMAND", "")
    version = config.get("cniVersion")
    version = version if isinstance(version, str) else ""
    if command == "VERSION":
        return _tell({"cniVersion": version or VERSIONS[-1], "supportedVersions": list(VERSIONS)})
    if version not in VERSIONS:
        message = f"cniVersion {version!r} is none of {', '.join(VERSIONS)}"
        return _tell(_error("", INCOMPATIBLE_VERSION, "incompatible CNI version", message))
    if not command:
        return _tell(_error(version, BAD_ENVIRONMENT, "CNI_COMMAND is missing", ""))
    path = config.get("socket")
    if not isinstance(path, str) or not path:
        return _tell(_error(version, BAD_CONFIG, "the configuration names no socket of the agent", ""))
    asked = {name: os.environ[name] for name in VARIABLES if name in os.environ}
    try:
        return _tell(_ask(path, {"environment": asked, "config": config}))
    except (OSError, ValueError) as error:
        code = NOT_AVAILABLE if command == "STATUS" else IO_FAILURE
        return _tell(_error(version, code, "the agent does not answer", str(error)))


def _ask(path: str, question: dict[str, Any]) -> dict[str, Any]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.settimeout(ANSWER_SECONDS_MAX)
        sock.connect(path)
        sock.sendall(json.dumps(question).encode() + b"\n")
        sock.shutdown(socket.SHUT_WR)
        answer = bytearray()
        while part := sock.recv(65536):
            answer += part
            if len(answer) > ANSWER_BYTES_MAX:
                raise ValueError("its answer has no end")
    found = json.loads(answer)
    if not isinstance(found, dict):
        raise ValueError("its answer is no object")
    return found


def _error(version: str, code: int, message: str, details: str) -> dict[str, Any]:
    return {"cniVersion": version or VERSIONS[-1], "code": code, "msg": message, "details": details}


def _tell(answer: dict[str, Any]) -> int:
    """Success and errors alike go to standard output; an empty answer is success with nothing to say."""
    if answer:
        sys.stdout.write(json.dumps(answer) + "\n")
    return 1 if "code" in answer else 0

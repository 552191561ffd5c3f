"""What a runtime asks, read and checked by the rules of the CNI specification. Pure.

CniError: what is told instead of a result; the codes below 100 are the specification's.
"""

import re
from enum import Enum
from typing import Any

from msgspec import Struct

from alcove.agent.cni.plugin import (
    BAD_CONFIG,
    BAD_ENVIRONMENT,
    INCOMPATIBLE_VERSION,
    VERSIONS,
)
from alcove.api.ids import TenantId

UNKNOWN_CONTAINER = 3
TRY_LATER = 11
NOT_AVAILABLE = 50
NOT_AS_WRITTEN = 101
ALREADY_THERE = 102

_is_container = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.\-]*").fullmatch
_is_network = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.\-]*").fullmatch
_is_interface = re.compile(r"[^\s/:]{1,15}").fullmatch
_SINCE_CHECK, _SINCE_GC = "0.4.0", "1.1.0"


class CniError(Exception):
    def __init__(self, code: int, message: str, details: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.details = details


class Command(Enum):
    ADD = "ADD"
    DEL = "DEL"
    CHECK = "CHECK"
    GC = "GC"
    STATUS = "STATUS"


class CniPodRef(Struct, frozen=True):
    tenant: TenantId
    namespace: str
    name: str
    uid: str
    """Empty: whichever has the name."""


class CniRequest(Struct, frozen=True):
    command: Command
    version: str
    network: str
    container: str = ""
    namespace: str = ""
    """Path of the network namespace; on DEL it may be gone."""
    interface: str = ""
    pod: CniPodRef | None = None
    previous: dict[str, Any] | None = None
    """The result of ADD, as the runtime remembers it."""
    valid: frozenset[tuple[str, str]] = frozenset()
    """Containers and interfaces that are still in use: for GC."""


def read(environment: dict[str, str], config: dict[str, Any]) -> CniRequest:
    """Raises CniError."""
    version = config.get("cniVersion")
    if version not in VERSIONS:
        raise CniError(INCOMPATIBLE_VERSION, "incompatible CNI version", f"{version!r}")
    try:
        command = Command(environment.get("CNI_COMMAND", ""))
    except ValueError:
        message = f"CNI_COMMAND is {environment.get('CNI_COMMAND', '')!r}"
        raise CniError(BAD_ENVIRONMENT, "unknown CNI_COMMAND", message) from None
    _check_age(command, version)
    network = config.get("name")
    if not isinstance(network, str) or not _is_network(network):
        raise CniError(BAD_CONFIG, "missing or invalid network name", f"{network!r}")
    if command in (Command.GC, Command.STATUS):
        return CniRequest(command, version, network, valid=_valid(command, config))
    return CniRequest(
        command,
        version,
        network,
        container=_container(environment),
        namespace=_namespace(environment, command),
        interface=_interface(environment),
        pod=_pod(environment, config) if command is Command.ADD else None,
        previous=_previous(config, command),
    )


def _check_age(command: Command, version: str) -> None:
    """What a version does not know yet, a runtime that speaks it does not ask for."""
    since = {Command.CHECK: _SINCE_CHECK, Command.GC: _SINCE_GC, Command.STATUS: _SINCE_GC}.get(command, "")
    if version < since:
        raise CniError(INCOMPATIBLE_VERSION, f"{command.value} is not part of CNI {version}")


def _container(environment: dict[str, str]) -> str:
    found = environment.get("CNI_CONTAINERID", "")
    if not _is_container(found):
        raise CniError(BAD_ENVIRONMENT, "missing or invalid CNI_CONTAINERID", f"{found!r}")
    return found


def _namespace(environment: dict[str, str], command: Command) -> str:
    found = environment.get("CNI_NETNS", "")
    if not found and command is not Command.DEL:
        raise CniError(BAD_ENVIRONMENT, "CNI_NETNS is missing")
    return found


def _interface(environment: dict[str, str]) -> str:
    found = environment.get("CNI_IFNAME", "")
    if not _is_interface(found) or found in (".", ".."):
        raise CniError(BAD_ENVIRONMENT, "missing or invalid CNI_IFNAME", f"{found!r}")
    return found


def _pod(environment: dict[str, str], config: dict[str, Any]) -> CniPodRef:
    """Kubernetes names the pod in CNI_ARGS, and Arktos its tenant; what is not said there, the configuration says."""
    arguments: dict[str, str] = {}
    for pair in filter(None, environment.get("CNI_ARGS", "").split(";")):
        name, equals, value = pair.partition("=")
        if not equals:
            raise CniError(BAD_ENVIRONMENT, "CNI_ARGS is not NAME=VALUE;…", f"{pair!r}")
        arguments[name] = value
    tenant = arguments.get("K8S_POD_TENANT") or config.get("tenant") or ""
    namespace = arguments.get("K8S_POD_NAMESPACE") or config.get("namespace") or ""
    pod = arguments.get("K8S_POD_NAME", "")
    if not (tenant and namespace and pod):
        message = (
            "CNI_ARGS must have K8S_POD_NAME, and they or the configuration the tenant and the namespace"
        )
        raise CniError(BAD_ENVIRONMENT, "which pod it is for is not said", message)
    return CniPodRef(TenantId(str(tenant)), str(namespace), pod, arguments.get("K8S_POD_UID", ""))


def _previous(config: dict[str, Any], command: Command) -> dict[str, Any] | None:
    found = config.get("prevResult")
    if found is not None and not isinstance(found, dict):
        raise CniError(BAD_CONFIG, "prevResult is no object")
    if found is None and command is Command.CHECK:
        raise CniError(BAD_CONFIG, "CHECK needs a prevResult")
    return found


def _valid(command: Command, config: dict[str, Any]) -> frozenset[tuple[str, str]]:
    if command is not Command.GC:
        return frozenset()
    listed = config.get("cni.dev/valid-attachments", [])
    if not isinstance(listed, list) or not all(isinstance(each, dict) for each in listed):
        raise CniError(BAD_CONFIG, "cni.dev/valid-attachments is no list of objects")
    return frozenset((str(each.get("containerID", "")), str(each.get("ifname", ""))) for each in listed)

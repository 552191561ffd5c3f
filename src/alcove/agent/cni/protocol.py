"""Requests and results by the CNI specification: parses and validates a runtime's request, and writes the
result of an attached pod in the form of the requested version. Pure: no I/O.

CniError is returned to the runtime instead of a result; codes below 100 are defined by the specification.
"""

import re
from enum import Enum
from ipaddress import ip_interface
from typing import Any

from msgspec import Struct

from alcove.agent.cni.plugin import (
    BAD_CONFIG,
    BAD_ENVIRONMENT,
    INCOMPATIBLE_VERSION,
    VERSIONS,
)
from alcove.agent.network.attachment import Attachment
from alcove.agent.network.attachment_records import AttachmentRecord
from alcove.api.ids import TenantId
from alcove.dns.resolvconf import ResolvConf

UNKNOWN_CONTAINER = 3
TRY_LATER = 11
NOT_AVAILABLE = 50
MISMATCH = 101
ALREADY_ATTACHED = 102

_is_container = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.\-]*").fullmatch
_is_network = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.\-]*").fullmatch
_is_interface = re.compile(r"[^\s/:]{1,15}").fullmatch
_SINCE_CHECK, _SINCE_GC = "0.4.0", "1.1.0"
_SINCE_NO_IP_VERSION = "1.0.0"
_SINCE_MTU = "1.1.0"


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
    """Empty if the pod with this name may have any uid."""


class CniRequest(Struct, frozen=True):
    command: Command
    version: str
    network: str
    container: str = ""
    namespace: str = ""
    """The path of the network namespace; on DEL it may not exist any more."""
    interface: str = ""
    pod: CniPodRef | None = None
    previous: dict[str, Any] | None = None
    """The result of ADD, as stored by the runtime."""
    valid: frozenset[tuple[str, str]] = frozenset()
    """The (container, interface) pairs that are still in use, for GC."""


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
    _check_version(command, version)
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


def _check_version(command: Command, version: str) -> None:
    """Rejects commands that are not part of the request's CNI version. Raises CniError."""
    since = {Command.CHECK: _SINCE_CHECK, Command.GC: _SINCE_GC, Command.STATUS: _SINCE_GC}.get(command, "")
    if version < since:
        raise CniError(INCOMPATIBLE_VERSION, f"{command.value} is not part of CNI {version}")


def _container(environment: dict[str, str]) -> str:
    container = environment.get("CNI_CONTAINERID", "")
    if not _is_container(container):
        raise CniError(BAD_ENVIRONMENT, "missing or invalid CNI_CONTAINERID", f"{container!r}")
    return container


def _namespace(environment: dict[str, str], command: Command) -> str:
    path = environment.get("CNI_NETNS", "")
    if not path and command is not Command.DEL:
        raise CniError(BAD_ENVIRONMENT, "CNI_NETNS is missing")
    return path


def _interface(environment: dict[str, str]) -> str:
    interface = environment.get("CNI_IFNAME", "")
    if not _is_interface(interface) or interface in (".", ".."):
        raise CniError(BAD_ENVIRONMENT, "missing or invalid CNI_IFNAME", f"{interface!r}")
    return interface


def _pod(environment: dict[str, str], config: dict[str, Any]) -> CniPodRef:
    """The pod is in CNI_ARGS (its tenant as in Arktos); missing tenant and namespace are read from the
    configuration."""
    arguments: dict[str, str] = {}
    for pair in filter(None, environment.get("CNI_ARGS", "").split(";")):
        name, equals, value = pair.partition("=")
        if not equals:
            raise CniError(BAD_ENVIRONMENT, "invalid CNI_ARGS: must be NAME=VALUE;…", f"{pair!r}")
        arguments[name] = value
    tenant = arguments.get("K8S_POD_TENANT") or config.get("tenant") or ""
    namespace = arguments.get("K8S_POD_NAMESPACE") or config.get("namespace") or ""
    pod = arguments.get("K8S_POD_NAME", "")
    if not (tenant and namespace and pod):
        message = "CNI_ARGS must contain K8S_POD_NAME; tenant and namespace may be in the configuration"
        raise CniError(BAD_ENVIRONMENT, "missing pod name, namespace or tenant", message)
    return CniPodRef(TenantId(str(tenant)), str(namespace), pod, arguments.get("K8S_POD_UID", ""))


def _previous(config: dict[str, Any], command: Command) -> dict[str, Any] | None:
    previous = config.get("prevResult")
    if previous is not None and not isinstance(previous, dict):
        raise CniError(BAD_CONFIG, "invalid prevResult: must be an object")
    if previous is None and command is Command.CHECK:
        raise CniError(BAD_CONFIG, "prevResult is required for CHECK")
    return previous


def _valid(command: Command, config: dict[str, Any]) -> frozenset[tuple[str, str]]:
    if command is not Command.GC:
        return frozenset()
    attachments = config.get("cni.dev/valid-attachments", [])
    if not isinstance(attachments, list) or not all(isinstance(each, dict) for each in attachments):
        raise CniError(BAD_CONFIG, "invalid cni.dev/valid-attachments: must be a list of objects")
    return frozenset((str(each.get("containerID", "")), str(each.get("ifname", ""))) for each in attachments)


def result_of(record: AttachmentRecord, version: str, resolv_conf: ResolvConf) -> dict[str, Any]:
    interfaces: list[dict[str, Any]] = []
    ips: list[dict[str, Any]] = []
    routes: list[dict[str, Any]] = []
    for index, plug in enumerate(record.plugs):
        interface: dict[str, Any] = {
            "name": plug.pod_interface,
            "mac": plug.mac,
            "sandbox": record.attachment.namespace_path,
        }
        if version >= _SINCE_MTU:
            interface["mtu"] = record.attachment.mtu
        interfaces.append(interface)
        for address in plug.addresses:
            ips.append(_ip(address, plug.gateways, index, version))
        routes += [{"dst": "0.0.0.0/0" if "." in each else "::/0", "gw": each} for each in plug.gateways]
    dns = {
        "nameservers": list(resolv_conf.nameservers),
        "domain": record.attachment.domain,
        "search": list(resolv_conf.searches),
        "options": list(resolv_conf.options),
    }
    return {"cniVersion": version, "interfaces": interfaces, "ips": ips, "routes": routes, "dns": dns}


def _ip(address: str, gateways: tuple[str, ...], index: int, version: str) -> dict[str, Any]:
    family = ip_interface(address).version
    ip: dict[str, Any] = {"address": address, "interface": index}
    if version < _SINCE_NO_IP_VERSION:
        ip["version"] = str(family)
    gateway = next((each for each in gateways if (":" in each) == (family == 6)), "")
    return {**ip, "gateway": gateway} if gateway else ip


def differs(attachment: Attachment, previous: dict[str, Any]) -> str:
    """A message about the difference between the attachment and an earlier result; empty if they match."""
    addresses = {str(each.get("address", "")).partition("/")[0] for each in previous.get("ips") or ()}
    missing = sorted(addresses - set(attachment.addresses))
    return f"addresses {', '.join(missing)} are not assigned to the pod" if missing else ""

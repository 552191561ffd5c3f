"""The CNI result of an attached pod, in the form of the requested version, and its comparison for CHECK.
Pure: no I/O."""

from ipaddress import ip_interface
from typing import Any

from alcove.agent.network.attachment import Attachment
from alcove.agent.network.attachment_records import AttachmentRecord
from alcove.dns.resolvconf import ResolvConf

_SINCE_NO_IP_VERSION = "1.0.0"
_SINCE_MTU = "1.1.0"


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

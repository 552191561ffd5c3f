"""Columns of tenants, networks and the VPC provider's objects."""

from alcove.api import objects
from alcove.api.columns.base import AGE, NAME, NONE, WIDE, at
from alcove.api.kind import PrinterColumn
from alcove.api.kinds.core.sleep import is_asleep
from alcove.api.objects import Object


def _phase(obj: Object, _now: float) -> str:
    if objects.get(obj, "metadata", "deletionTimestamp"):
        return "Terminating"
    return str(objects.get(obj, "status", "phase", default=""))


def _tenant_phase(tenant: Object, now: float) -> str:
    phase = _phase(tenant, now)
    return "Asleep" if phase == "Active" and is_asleep(tenant) else phase


TENANT = (
    NAME,
    PrinterColumn("Phase", _tenant_phase, description="Phase: Active, Asleep or Terminating."),
    PrinterColumn(
        "Mode",
        at("spec", "controlPlane", "mode", default="Shared"),
        description="Mode of the control plane: Shared, Dedicated or Foreign.",
    ),
    PrinterColumn(
        "Weight",
        at("spec", "weight", default=1),
        "integer",
        description="Relative share of scheduling capacity.",
    ),
    AGE,
    PrinterColumn(
        "Endpoint",
        at("status", "endpoint", default=NONE),
        description="Address of the tenant's API server.",
        priority=WIDE,
    ),
)


def _vpc(obj: Object, _now: float) -> str:
    desired = objects.get(obj, "spec", "vpcID", default=NONE)
    return str(objects.get(obj, "status", "vpc", default=desired))


IDENTITY_PROVIDER = (
    NAME,
    PrinterColumn("Issuer", at("spec", "issuer", "url"), description="URL of the issuer."),
    AGE,
)

NETWORK = (
    NAME,
    PrinterColumn("Type", at("spec", "type"), description="Type of the network."),
    PrinterColumn("VPC", _vpc, description="VPC of the network."),
    PrinterColumn(
        "CIDR", at("status", "cidr", default=NONE), description="Range of the network's addresses."
    ),
    PrinterColumn("Phase", _phase, description="Phase: whether pods can be attached."),
    PrinterColumn(
        "DNS", at("status", "dnsServiceIP", default=NONE), description="Address of the DNS service."
    ),
    AGE,
    PrinterColumn(
        "VNI",
        at("status", "vni", default=NONE),
        description="Virtual network identifier (VNI).",
        priority=WIDE,
    ),
    PrinterColumn(
        "Message", at("status", "message"), description="Reason of the current phase.", priority=WIDE
    ),
)


def _cidr(obj: Object, _now: float) -> str:
    ip, prefix = objects.get(obj, "spec", "ip"), objects.get(obj, "spec", "prefix")
    return f"{ip}/{prefix}" if ip and prefix is not None else NONE


def _spec(name: str, field: str, description: str, priority: int = 0) -> PrinterColumn:
    return PrinterColumn(name, at("spec", field, default=NONE), description=description, priority=priority)


_CIDR = PrinterColumn("CIDR", _cidr, description="Address range.")
_VNI = _spec("VNI", "vni", "Virtual network identifier (VNI).")
_STATUS = _spec("Status", "status", "Provisioning state.")
_MESSAGE = PrinterColumn(
    "Message", at("status", "message"), description="Reason of the current state.", priority=WIDE
)
_USED = PrinterColumn("Used", at("status", "used", default=NONE), description="Addresses in use.")
_FREE = PrinterColumn("Free", at("status", "free", default=NONE), description="Available addresses.")
_IP = _spec("IP", "ip", "IP address.")
_MAC = _spec("MAC", "mac", "MAC address.")
_VPC = _spec("VPC", "vpc", "VPC of the object.")
_SUBNET = _spec("Subnet", "net", "Subnet of the object.")
_DROPLET = _spec("Droplet", "droplet", "Droplet of the object.")

VPC = (
    NAME,
    _CIDR,
    _VNI,
    _spec("Dividers", "dividers", "Desired number of dividers."),
    _STATUS,
    AGE,
    _MESSAGE,
)
SUBNET = (
    NAME,
    _CIDR,
    _VPC,
    _VNI,
    _spec("Bouncers", "bouncers", "Desired number of bouncers."),
    _USED,
    _FREE,
    _STATUS,
    AGE,
    _MESSAGE,
)
ENDPOINT = (
    NAME,
    _spec("Type", "type", "Type of the endpoint."),
    _IP,
    _MAC,
    _VPC,
    _SUBNET,
    _DROPLET,
    _STATUS,
    AGE,
    _spec("VNI", "vni", "Virtual network identifier (VNI).", WIDE),
    _spec("Gateway", "gw", "Gateway of the subnet.", WIDE),
    _spec("Interface", "itf", "Interface of the endpoint.", WIDE),
    _spec("Pod", "pod", "Owner of the endpoint.", WIDE),
)
BOUNCER = (NAME, _VPC, _SUBNET, _IP, _MAC, _DROPLET, _STATUS, AGE)
DIVIDER = (NAME, _VPC, _IP, _MAC, _DROPLET, _STATUS, AGE)
DROPLET = (NAME, _IP, _MAC, _spec("Interface", "itf", "Interface on the underlay."), _STATUS, AGE)

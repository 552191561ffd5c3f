"""Columns of tenants, networks and the VPC provider's objects."""

from alcove.api import objects
from alcove.api.columns.base import AGE, NAME, NONE, WIDE, at
from alcove.api.kind import PrinterColumn
from alcove.api.objects import Object


def _phase(obj: Object, _now: float) -> str:
    if objects.get(obj, "metadata", "deletionTimestamp"):
        return "Terminating"
    return str(objects.get(obj, "status", "phase", default=""))


TENANT = (
    NAME,
    PrinterColumn("Phase", _phase, description="Whether it is in use or going."),
    PrinterColumn(
        "Mode",
        at("spec", "controlPlane", "mode", default="Shared"),
        description="Whether its API server is its own.",
    ),
    PrinterColumn(
        "Weight", at("spec", "weight", default=1), "integer", description="Its share of the scheduler."
    ),
    AGE,
    PrinterColumn(
        "Endpoint", at("status", "endpoint", default=NONE), description="Where its API is.", priority=WIDE
    ),
)


def _vpc(obj: Object, _now: float) -> str:
    wanted = objects.get(obj, "spec", "vpcID", default=NONE)
    return str(objects.get(obj, "status", "vpc", default=wanted))


NETWORK = (
    NAME,
    PrinterColumn("Type", at("spec", "type"), description="How the network is made."),
    PrinterColumn("VPC", _vpc, description="VPC it is mapped to."),
    PrinterColumn("CIDR", at("status", "cidr", default=NONE), description="Range of its addresses."),
    PrinterColumn("Phase", _phase, description="Whether pods can be attached."),
    PrinterColumn("DNS", at("status", "dnsServiceIP", default=NONE), description="Address of its DNS."),
    AGE,
    PrinterColumn(
        "VNI", at("status", "vni", default=NONE), description="Its number on the wire.", priority=WIDE
    ),
    PrinterColumn("Message", at("status", "message"), description="Why it is in this phase.", priority=WIDE),
)


def _cidr(obj: Object, _now: float) -> str:
    ip, prefix = objects.get(obj, "spec", "ip"), objects.get(obj, "spec", "prefix")
    return f"{ip}/{prefix}" if ip and prefix is not None else NONE


def _spec(name: str, field: str, description: str, priority: int = 0) -> PrinterColumn:
    return PrinterColumn(name, at("spec", field, default=NONE), description=description, priority=priority)


_CIDR = PrinterColumn("CIDR", _cidr, description="Range of its addresses.")
_VNI = _spec("VNI", "vni", "Its number on the wire.")
_STATUS = _spec("Status", "status", "Where the provider is with it.")
_MESSAGE = PrinterColumn("Message", at("status", "message"), description="Why it is there.", priority=WIDE)
_USED = PrinterColumn("Used", at("status", "used", default=NONE), description="Addresses in use.")
_FREE = PrinterColumn("Free", at("status", "free", default=NONE), description="Addresses left.")
_IP = _spec("IP", "ip", "Its address.")
_MAC = _spec("MAC", "mac", "Its hardware address.")
_VPC = _spec("VPC", "vpc", "VPC it belongs to.")
_SUBNET = _spec("Subnet", "net", "Subnet it belongs to.")
_DROPLET = _spec("Droplet", "droplet", "Machine that holds it.")

VPC = (NAME, _CIDR, _VNI, _spec("Dividers", "dividers", "Dividers it is to have."), _STATUS, AGE, _MESSAGE)
SUBNET = (
    NAME,
    _CIDR,
    _VPC,
    _VNI,
    _spec("Bouncers", "bouncers", "Bouncers it is to have."),
    _USED,
    _FREE,
    _STATUS,
    AGE,
    _MESSAGE,
)
ENDPOINT = (
    NAME,
    _spec("Type", "type", "What it stands for."),
    _IP,
    _MAC,
    _VPC,
    _SUBNET,
    _DROPLET,
    _STATUS,
    AGE,
    _spec("VNI", "vni", "Number of its VPC on the wire.", WIDE),
    _spec("Gateway", "gw", "Gateway of its subnet.", WIDE),
    _spec("Interface", "itf", "Its interface.", WIDE),
    _spec("Pod", "pod", "What it was made for.", WIDE),
)
BOUNCER = (NAME, _VPC, _SUBNET, _IP, _MAC, _DROPLET, _STATUS, AGE)
DIVIDER = (NAME, _VPC, _IP, _MAC, _DROPLET, _STATUS, AGE)
DROPLET = (NAME, _IP, _MAC, _spec("Interface", "itf", "Its interface on the underlay."), _STATUS, AGE)

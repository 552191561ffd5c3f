"""Columns of services, endpoints, ingresses, network policies."""

from alcove.api import objects
from alcove.api.columns.base import (
    AGE,
    NAME,
    NONE,
    UNSET,
    WIDE,
    at,
    joined,
    show_labels,
    show_selector,
    show_some,
)
from alcove.api.kind import PrinterColumn
from alcove.api.objects import Object


def _balancers(obj: Object) -> str:
    ingress = objects.get(obj, "status", "loadBalancer", "ingress", default=())
    return ",".join(each.get("ip") or each.get("hostname") or "" for each in ingress)


def _cluster_ip(obj: Object, _now: float) -> str:
    ips = objects.get(obj, "spec", "clusterIPs", default=())
    return str(ips[0] if ips else objects.get(obj, "spec", "clusterIP", default=NONE))


def _external_ip(obj: Object, _now: float) -> str:
    external_ips: list[str] = objects.get(obj, "spec", "externalIPs", default=[])
    match objects.get(obj, "spec", "type"):
        case "ExternalName":
            return str(objects.get(obj, "spec", "externalName", default=""))
        case "LoadBalancer":
            return joined(filter(None, [_balancers(obj), *external_ips]), none="<pending>")
        case _:
            return joined(external_ips)


def _ports(obj: Object, _now: float) -> str:
    ports = objects.get(obj, "spec", "ports", default=())
    return joined(_port(port) for port in ports)


def _port(port: Object) -> str:
    node_port = f":{port['nodePort']}" if port.get("nodePort") else ""
    return f"{port.get('port')}{node_port}/{port.get('protocol', 'TCP')}"


SERVICE = (
    NAME,
    PrinterColumn("Type", at("spec", "type"), description="Type of the service."),
    PrinterColumn("Cluster-IP", _cluster_ip, description="Cluster IP of the service."),
    PrinterColumn("External-IP", _external_ip, description="External addresses."),
    PrinterColumn("Port(s)", _ports, description="Ports, with node ports."),
    AGE,
    PrinterColumn(
        "Selector",
        lambda obj, _now: show_labels(objects.get(obj, "spec", "selector")),
        description="Selector of the service's pods.",
        priority=WIDE,
    ),
)


def _subset_addresses(obj: Object, _now: float) -> str:
    shown = []
    for subset in obj.get("subsets") or ():
        addresses = [each.get("ip", "") for each in subset.get("addresses") or ()]
        ports = subset.get("ports") or ()
        if ports:
            shown += [_host_port(ip, port.get("port")) for port in ports for ip in addresses]
        else:
            shown += addresses
    return show_some(shown)


def _host_port(ip: str, port: object) -> str:
    return f"[{ip}]:{port}" if ":" in ip else f"{ip}:{port}"


ENDPOINTS = (
    NAME,
    PrinterColumn("Endpoints", _subset_addresses, description="Addresses of ready endpoints."),
    AGE,
)


def _slice_ports(obj: Object, _now: float) -> str:
    ports = obj.get("ports") or ()
    return show_some(["*" if port.get("port") is None else str(port["port"]) for port in ports], none=UNSET)


def _slice_addresses(obj: Object, _now: float) -> str:
    addresses = [address for each in obj.get("endpoints") or () for address in each.get("addresses") or ()]
    return show_some(addresses, none=UNSET)


ENDPOINT_SLICE = (
    NAME,
    PrinterColumn("AddressType", at("addressType"), description="Address type of the endpoints."),
    PrinterColumn("Ports", _slice_ports, description="Ports of all endpoints in the slice."),
    PrinterColumn("Endpoints", _slice_addresses, description="Addresses of the endpoints."),
    AGE,
)


def _hosts(obj: Object, _now: float) -> str:
    hosts = [rule["host"] for rule in objects.get(obj, "spec", "rules", default=()) if rule.get("host")]
    return show_some(hosts, none="*")


def _ingress_ports(obj: Object, _now: float) -> str:
    return "80, 443" if objects.get(obj, "spec", "tls") else "80"


INGRESS = (
    NAME,
    PrinterColumn("Class", at("spec", "ingressClassName", default=NONE), description="Ingress class."),
    PrinterColumn("Hosts", _hosts, description="Hosts of the rules."),
    PrinterColumn(
        "Address", lambda obj, _now: _balancers(obj), description="Addresses of the load balancer."
    ),
    PrinterColumn("Ports", _ingress_ports, description="Ports of the ingress."),
    AGE,
)


def _parameters(obj: Object, _now: float) -> str:
    parameters = objects.get(obj, "spec", "parameters")
    if not parameters:
        return NONE
    group = f".{parameters['apiGroup']}" if parameters.get("apiGroup") else ""
    return f"{parameters.get('kind', '')}{group}/{parameters.get('name', '')}"


INGRESS_CLASS = (
    NAME,
    PrinterColumn("Controller", at("spec", "controller"), description="Controller of the class."),
    PrinterColumn("Parameters", _parameters, description="Parameters of the class."),
    AGE,
)


def _parent(obj: Object, _now: float) -> str:
    parent = objects.get(obj, "spec", "parentRef", default={})
    resource = ".".join(filter(None, (parent.get("resource"), parent.get("group"))))
    return "/".join(filter(None, (resource, parent.get("namespace"), parent.get("name"))))


IP_ADDRESS = (
    NAME,
    PrinterColumn("ParentRef", _parent, description="Object that the address belongs to."),
    AGE,
)

SERVICE_CIDR = (
    NAME,
    PrinterColumn(
        "CIDRs",
        lambda obj, _now: ",".join(objects.get(obj, "spec", "cidrs", default=())),
        description="Ranges of service addresses.",
    ),
    AGE,
)

NETWORK_POLICY = (
    NAME,
    PrinterColumn(
        "Pod-Selector",
        lambda obj, _now: show_selector(objects.get(obj, "spec", "podSelector")),
        description="Selector of the policy's pods.",
    ),
    AGE,
)

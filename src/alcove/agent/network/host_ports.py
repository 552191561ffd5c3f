"""Host ports of pods (`hostPort`): a port of the node that leads to a pod on it. Pure: no I/O.

In the data plane a host port is as a node port of a service with `externalTrafficPolicy: Local` whose one backend is the pod:
clients keep their address. To processes on the node itself, also at its loopback addresses, the agent relays (`local`). Only pods
of ring0 and of tenants that it trusts have them, since they take ports from the node itself.
"""

from collections.abc import Iterable, Iterator
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_interface

from alcove.agent.ingress.local_node_ports import LocalService, Step
from alcove.agent.network.attachment_records import AttachmentRecord, HostPort
from alcove.api.objects import Object
from alcove.dataplane.address import Address
from alcove.dataplane.model import DataplaneService, NodePort, Protocol, ServiceBackend

LOOPBACK: tuple[Address, ...] = (IPv4Address("127.0.0.1"), IPv6Address("::1"))


def wanted(pod: Object, *, is_trusted: bool) -> tuple[HostPort, ...]:
    """The host ports of a pod; none if it is not trusted with them."""
    if not is_trusted or pod["spec"].get("hostNetwork"):
        return ()
    spec = pod["spec"]
    return tuple(
        HostPort(
            port["hostPort"], port.get("protocol") or "TCP", port["containerPort"], port.get("hostIP") or ""
        )
        for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ()))
        for port in container.get("ports") or ()
        if port.get("hostPort")
    )


def served(
    records: Iterable[AttachmentRecord], nodes: tuple[Address, ...]
) -> Iterator[tuple[DataplaneService, NodePort]]:
    """What the data plane serves at the addresses of this node, `nodes`."""
    for record in records:
        for host_port in record.host_ports:
            for veth in record.plugs[:1]:
                pod_addresses = [ip_interface(each).ip for each in veth.addresses]
                yield from _served_port(host_port, veth.vni, pod_addresses, nodes)


def _served_port(
    host_port: HostPort, vni: int, pod_addresses: list[Address], nodes: tuple[Address, ...]
) -> Iterator[tuple[DataplaneService, NodePort]]:
    protocol, number = Protocol[host_port.protocol], host_port.port
    for node in nodes:
        backends = [each for each in pod_addresses if each.version == node.version]
        if backends and _is_at(host_port.host_ip, node):
            backend = ServiceBackend(backends[0], host_port.container_port)
            service = DataplaneService(vni, node, number, protocol, (backend,))
            yield service, NodePort(vni, node, number, protocol, node, number, keep_client=True)


def local(
    records: Iterable[AttachmentRecord], nodes: tuple[Address, ...], protocol: Protocol
) -> dict[Step, LocalService]:
    """Where processes on the node itself find host ports of that protocol."""
    found: dict[Step, LocalService] = {}
    for record in records:
        for host_port in record.host_ports:
            if Protocol[host_port.protocol] is protocol and record.plugs:
                veth = record.plugs[0].to_veth()
                for address in _local_addresses(host_port.host_ip, nodes):
                    pods = [each.ip for each in veth.addresses if each.version == address.version]
                    sources = [each for each in veth.gateways if each.version == address.version]
                    if pods and sources:
                        found[str(address), host_port.port] = LocalService(
                            veth.vni, str(pods[0]), host_port.container_port, str(sources[0])
                        )
    return found


def _local_addresses(host_ip: str, nodes: tuple[Address, ...]) -> list[Address]:
    address = ip_address(host_ip) if host_ip else None
    if address is not None and address.is_loopback:
        return [address]
    return [each for each in (*nodes, *LOOPBACK) if _is_at(host_ip, each)]


def _is_at(host_ip: str, node: Address) -> bool:
    """Whether a host port with that `hostIP` is at this address of the node."""
    address = ip_address(host_ip) if host_ip else None
    return address is None or address.is_unspecified or address == node

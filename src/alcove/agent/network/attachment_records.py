"""Records of network attachments on disk: written before anything is created, so that a restarted agent finds
it.

There is one file for each pod, under the pod's directory name. Namespaces and veths without a record are
removed; a record without namespace and veths (after a reboot) has them created again.
"""

import logging
from functools import lru_cache
from ipaddress import ip_address, ip_interface
from pathlib import Path

import msgspec
from msgspec import Struct

from alcove.agent.network.attachment import Attachment
from alcove.agent.podkey import PodKey
from alcove.dataplane.model import TrafficClass, Veth
from alcove.network.owners import TenantNetworkId

log = logging.getLogger(__name__)


class VethRecord(Struct, frozen=True):
    """A veth as it is stored: without rules, which follow from policies."""

    name: str
    vni: int
    mac: str
    addresses: tuple[str, ...]
    gateways: tuple[str, ...]
    rate_bytes_per_second: int
    traffic_class: TrafficClass
    pod_interface: str

    @classmethod
    def from_veth(cls, veth: Veth) -> "VethRecord":
        addresses, gateways = tuple(map(str, veth.addresses)), tuple(map(str, veth.gateways))
        rate, traffic_class = veth.rate_bytes_per_second, veth.traffic_class
        return cls(
            veth.name, veth.vni, veth.mac, addresses, gateways, rate, traffic_class, veth.pod_interface
        )

    @lru_cache(maxsize=4096)  # noqa: B019 - by value: the struct is frozen and small
    def to_veth(self) -> Veth:
        return Veth(
            name=self.name,
            vni=self.vni,
            mac=self.mac,
            addresses=tuple(map(ip_interface, self.addresses)),
            gateways=tuple(map(ip_address, self.gateways)),
            rate_bytes_per_second=self.rate_bytes_per_second,
            traffic_class=self.traffic_class,
            pod_interface=self.pod_interface,
        )


class HostPort(Struct, frozen=True):
    """A port of the node that leads to a port of the pod."""

    port: int
    protocol: str
    container_port: int
    host_ip: str = ""
    """The only address of the node at which it is; empty for all."""


class AttachmentRecord(Struct, frozen=True):
    key: PodKey
    network: TenantNetworkId
    namespace: str
    """Name of the pod's network namespace; empty if a container runtime made it
    (`attachment.namespace_path`)."""
    vpc: str
    attachment: Attachment
    plugs: tuple[VethRecord, ...]
    container: str = ""
    """The container runtime's id of the container; empty for the agent's pods."""
    host_ports: tuple[HostPort, ...] = ()


class AttachmentRecords:
    def __init__(self, directory: Path) -> None:
        self._directory = directory
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._records: dict[PodKey, AttachmentRecord] = {}
        for path in directory.glob("*.json"):
            if (record := _read(path)) is not None:
                self._records[record.key] = record

    def get(self, key: PodKey) -> AttachmentRecord | None:
        return self._records.get(key)

    def all(self) -> list[AttachmentRecord]:
        return list(self._records.values())

    def put(self, record: AttachmentRecord) -> None:
        path = self._path(record.key)
        partial = path.with_suffix(".new")
        partial.write_bytes(msgspec.json.encode(record))
        partial.replace(path)
        self._records[record.key] = record

    def forget(self, key: PodKey) -> None:
        """Removes the record from memory only; its file stays until `drop`."""
        self._records.pop(key, None)

    def drop(self, key: PodKey) -> None:
        """Removes the record and its file. Idempotent."""
        self._path(key).unlink(missing_ok=True)
        self._records.pop(key, None)

    def _path(self, key: PodKey) -> Path:
        return self._directory / f"{key.directory_name}.json"


def _read(path: Path) -> AttachmentRecord | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=AttachmentRecord)
    except (msgspec.MsgspecError, ValueError, OSError) as error:
        # Its namespace and veths now have no record, and are removed.
        log.error("failed to read attachment record; ignored", extra={"path": str(path), "error": str(error)})
        return None

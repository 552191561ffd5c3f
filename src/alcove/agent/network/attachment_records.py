"""Attachments on disk: what was made for which pod, written before it is made, so that a restarted agent finds it.

One file for each pod, by its place. What is in the kernel without a record is nobody's; a record without
anything in the kernel (the machine was restarted) is made anew.
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
    """A port as it is written: without rules, which follow from policies."""

    name: str
    vni: int
    mac: str
    addresses: tuple[str, ...]
    gateways: tuple[str, ...]
    rate_bytes_per_second: int
    traffic_class: TrafficClass
    pod_interface: str

    @classmethod
    def of(cls, veth: Veth) -> "VethRecord":
        addresses, gateways = tuple(map(str, veth.addresses)), tuple(map(str, veth.gateways))
        rate, rank = veth.rate_bytes_per_second, veth.traffic_class
        return cls(veth.name, veth.vni, veth.mac, addresses, gateways, rate, rank, veth.pod_interface)

    @lru_cache(maxsize=4096)  # noqa: B019 - by value: the struct is frozen and small
    def port(self) -> Veth:
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


class AttachmentRecord(Struct, frozen=True):
    key: PodKey
    network: TenantNetworkId
    namespace: str
    """Name of the pod's network namespace; empty: somebody else made it (`attachment.namespace_path`)."""
    vpc: str
    attachment: Attachment
    plugs: tuple[VethRecord, ...]
    container: str = ""
    """What a container runtime calls it; empty: it is the agent's own."""


class AttachmentRecords:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._records: dict[PodKey, AttachmentRecord] = {}
        for path in folder.glob("*.json"):
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
        """It is about to go: only what is on disk still speaks of it."""
        self._records.pop(key, None)

    def drop(self, key: PodKey) -> None:
        """Idempotent."""
        self._path(key).unlink(missing_ok=True)
        self._records.pop(key, None)

    def _path(self, key: PodKey) -> Path:
        return self._folder / f"{key.directory_name}.json"


def _read(path: Path) -> AttachmentRecord | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=AttachmentRecord)
    except (msgspec.MsgspecError, ValueError, OSError) as error:
        # What it spoke of is in the kernel without a record, and is removed.
        log.error("unreadable record of an attachment", extra={"path": str(path), "error": str(error)})
        return None

"""Records of attachments are read back, whatever else is in the directory."""

from ipaddress import ip_address, ip_interface
from pathlib import Path

from alcove.agent.network.attachment import Attachment
from alcove.agent.network.attachment_records import AttachmentRecord, AttachmentRecords, VethRecord
from alcove.agent.network.node_network import in_namespace
from alcove.agent.podkey import PodKey
from alcove.api.ids import TenantId
from alcove.client.keys import HOME, PlaneId
from alcove.dataplane.model import TrafficClass, Veth
from alcove.network.owners import TenantNetworkId

PORT = Veth(
    name="al0pabc",
    vni=7,
    mac="0a:58:0a:00:00:05",
    addresses=(ip_interface("10.0.0.5/24"), ip_interface("fd00::5/64")),
    gateways=(ip_address("10.0.0.1"), ip_address("fd00::1")),
    rate_bytes_per_second=1000,
    traffic_class=TrafficClass.PREMIUM,
)


def record(uid: str, plane: PlaneId = HOME) -> AttachmentRecord:
    key = PodKey(plane, TenantId("acme"), "default", "web", uid)
    attachment = Attachment(f"/run/netns/{uid}", ("10.0.0.5", "fd00::5"), ("10.96.0.10",), mtu=1500)
    return AttachmentRecord(
        key, TenantNetworkId(TenantId("acme"), "blue"), uid, "v", attachment, (VethRecord.from_veth(PORT),)
    )


def test_a_port_comes_back_as_it_was() -> None:
    assert VethRecord.from_veth(PORT).to_veth() == PORT


def test_records_outlive_their_writer(tmp_path: Path) -> None:
    first, second = record("u1"), record("u1", PlaneId("acme"))
    records = AttachmentRecords(tmp_path / "network")
    records.put(first)
    records.put(second)
    assert {each.key for each in AttachmentRecords(tmp_path / "network").all()} == {first.key, second.key}
    records.forget(first.key)
    assert records.get(first.key) is None
    assert AttachmentRecords(tmp_path / "network").get(first.key) == first, (
        "as long as it may still be in the kernel"
    )
    for _ in range(2):
        records.drop(first.key)
    assert AttachmentRecords(tmp_path / "network").all() == [second]


def test_what_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    records = AttachmentRecords(tmp_path)
    records.put(record("u1"))
    (tmp_path / "torn.json").write_text('{"key": {"pla')
    (tmp_path / "strange.json").write_text("[]")
    (tmp_path / "half.new").write_text("")
    assert AttachmentRecords(tmp_path).all() == [record("u1")]


def test_a_runtime_has_its_own_names_for_things() -> None:
    found = in_namespace(record("u1"), Path("/run/other"), "net1", "c0ffee")
    assert found.plugs[0].pod_interface == "net1"
    assert (found.namespace, found.attachment.namespace_path, found.container) == ("", "/run/other", "c0ffee")

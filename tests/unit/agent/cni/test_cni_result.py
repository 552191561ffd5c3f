"""Results in the form of each version, and whether they still hold."""

import pytest

from alcove.agent.cni.protocol import differs, result_of
from alcove.agent.network.attachment import Attachment
from alcove.agent.network.attachment_records import AttachmentRecord, VethRecord
from alcove.agent.podkey import PodKey
from alcove.api.ids import TenantId
from alcove.client.keys import HOME
from alcove.dataplane.model import TrafficClass
from alcove.dns.resolvconf import ResolvConf
from alcove.network.owners import TenantNetworkId

PLUGS = tuple(
    VethRecord(
        f"p{n}",
        7,
        f"0a:58:0a:00:00:0{n}",
        (f"10.0.0.{n}/24",),
        gateways,
        0,
        TrafficClass.EXPEDITED,
        f"eth{n}",
    )
    for n, gateways in ((0, ("10.0.0.1",)), (1, ()))
)
ATTACHMENT = Attachment("/run/netns/x", ("10.0.0.0", "10.0.0.1"), mtu=1450)
RECORD = AttachmentRecord(
    PodKey(HOME, TenantId("acme"), "default", "web", "u"),
    TenantNetworkId(TenantId("acme"), "blue"),
    "",
    "v",
    ATTACHMENT,
    PLUGS,
    "c0ffee",
)
NAMES = ResolvConf(("10.96.0.10",), ("default.svc.cluster.local",), ("ndots:5",))


def test_the_newest_form() -> None:
    assert result_of(RECORD, "1.1.0", NAMES) == {
        "cniVersion": "1.1.0",
        "interfaces": [
            {"name": "eth0", "mac": "0a:58:0a:00:00:00", "sandbox": "/run/netns/x", "mtu": 1450},
            {"name": "eth1", "mac": "0a:58:0a:00:00:01", "sandbox": "/run/netns/x", "mtu": 1450},
        ],
        "ips": [
            {"address": "10.0.0.0/24", "interface": 0, "gateway": "10.0.0.1"},
            {"address": "10.0.0.1/24", "interface": 1},
        ],
        "routes": [{"dst": "0.0.0.0/0", "gw": "10.0.0.1"}],
        "dns": {
            "nameservers": ["10.96.0.10"],
            "domain": "cluster.local",
            "search": ["default.svc.cluster.local"],
            "options": ["ndots:5"],
        },
    }


@pytest.mark.parametrize(
    ("version", "has_mtu", "has_family"),
    [("0.3.0", False, True), ("0.4.0", False, True), ("1.0.0", False, False), ("1.1.0", True, False)],
)
def test_older_forms(version: str, has_mtu: bool, has_family: bool) -> None:
    result = result_of(RECORD, version, NAMES)
    assert result["cniVersion"] == version
    assert ("mtu" in result["interfaces"][0]) == has_mtu
    assert (result["ips"][0].get("version") == "4") == has_family


def test_a_result_holds_as_long_as_its_addresses_are_the_pods() -> None:
    assert differs(ATTACHMENT, result_of(RECORD, "1.1.0", NAMES)) == ""
    assert differs(ATTACHMENT, {}) == ""
    assert (
        differs(ATTACHMENT, {"ips": [{"address": "10.0.0.9/24"}]})
        == "addresses 10.0.0.9 are not assigned to the pod"
    )

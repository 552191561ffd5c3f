"""The CNI specification's rules: a table of requests with the errors of invalid ones, and results in each
version."""

from typing import Any

import pytest

from alcove.agent.cni.protocol import CniError, CniPodRef, Command, differs, read, result_of
from alcove.agent.network.attachment import Attachment
from alcove.agent.network.attachment_records import AttachmentRecord, VethRecord
from alcove.agent.podkey import PodKey
from alcove.api.ids import TenantId
from alcove.client.keys import HOME
from alcove.dataplane.model import TrafficClass
from alcove.dns.resolvconf import ResolvConf
from alcove.network.owners import TenantNetworkId

ENVIRONMENT = {
    "CNI_COMMAND": "ADD",
    "CNI_CONTAINERID": "c0ffee",
    "CNI_NETNS": "/run/netns/x",
    "CNI_IFNAME": "eth0",
    "CNI_ARGS": "IgnoreUnknown=1;K8S_POD_TENANT=acme;K8S_POD_NAMESPACE=default;K8S_POD_NAME=web;K8S_POD_UID=u1",
}
CONFIG: dict[str, Any] = {"cniVersion": "1.1.0", "name": "alcove", "type": "alcove-cni"}
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


def test_add() -> None:
    request = read(ENVIRONMENT, CONFIG)
    assert request.command is Command.ADD
    assert request.pod == CniPodRef(TenantId("acme"), "default", "web", "u1")
    assert (request.container, request.interface, request.namespace) == ("c0ffee", "eth0", "/run/netns/x")


@pytest.mark.parametrize("arguments", ["K8S_POD_NAMESPACE=default;K8S_POD_NAME=web", "K8S_POD_NAME=web"])
def test_whose_it_is_may_be_the_configurations_to_say(arguments: str) -> None:
    """Podman says no namespace."""
    config = {**CONFIG, "tenant": "acme", "namespace": "default"}
    request = read({**ENVIRONMENT, "CNI_ARGS": arguments}, config)
    assert request.pod == CniPodRef(TenantId("acme"), "default", "web", "")


@pytest.mark.parametrize(
    ("environment", "config", "code"),
    [
        ({}, {"cniVersion": "2.0.0"}, 1),
        ({}, {"cniVersion": None}, 1),
        ({"CNI_COMMAND": "CHECK"}, {"cniVersion": "0.3.1", "prevResult": {}}, 1),
        ({"CNI_COMMAND": "GC"}, {"cniVersion": "1.0.0"}, 1),
        ({"CNI_COMMAND": "STATUS"}, {"cniVersion": "1.0.0"}, 1),
        ({"CNI_COMMAND": ""}, {}, 4),
        ({"CNI_COMMAND": "ATTACH"}, {}, 4),
        ({"CNI_CONTAINERID": ""}, {}, 4),
        ({"CNI_CONTAINERID": "../x"}, {}, 4),
        ({"CNI_CONTAINERID": "-x"}, {}, 4),
        ({"CNI_NETNS": ""}, {}, 4),
        ({"CNI_IFNAME": ""}, {}, 4),
        ({"CNI_IFNAME": "a-name-too-long-"}, {}, 4),
        ({"CNI_IFNAME": "et/h"}, {}, 4),
        ({"CNI_IFNAME": "et:h"}, {}, 4),
        ({"CNI_IFNAME": "et h"}, {}, 4),
        ({"CNI_IFNAME": ".."}, {}, 4),
        ({"CNI_ARGS": ""}, {}, 4),
        ({"CNI_ARGS": "K8S_POD_NAMESPACE=default;K8S_POD_NAME=web"}, {}, 4),
        ({"CNI_ARGS": "nonsense"}, {}, 4),
        ({}, {"name": ""}, 7),
        ({}, {"name": "-x"}, 7),
        ({}, {"name": 7}, 7),
        ({"CNI_COMMAND": "CHECK"}, {}, 7),
        ({"CNI_COMMAND": "CHECK"}, {"prevResult": []}, 7),
        ({"CNI_COMMAND": "GC"}, {"cni.dev/valid-attachments": {}}, 7),
        ({"CNI_COMMAND": "GC"}, {"cni.dev/valid-attachments": ["x"]}, 7),
    ],
)
def test_what_is_refused(environment: dict[str, str], config: dict[str, Any], code: int) -> None:
    with pytest.raises(CniError) as caught:
        read({**ENVIRONMENT, **environment}, {**CONFIG, **config})
    assert caught.value.code == code


def test_del_needs_neither_namespace_nor_pod() -> None:
    environment = {"CNI_COMMAND": "DEL", "CNI_CONTAINERID": "c0ffee", "CNI_IFNAME": "eth0"}
    request = read(environment, CONFIG)
    assert (request.namespace, request.pod, request.previous) == ("", None, None)


@pytest.mark.parametrize("command", ["GC", "STATUS"])
def test_what_is_about_the_whole_network_needs_no_container(command: str) -> None:
    config = {**CONFIG, "cni.dev/valid-attachments": [{"containerID": "c0ffee", "ifname": "eth0"}]}
    request = read({"CNI_COMMAND": command}, config)
    assert request.valid == ({("c0ffee", "eth0")} if command == "GC" else frozenset())


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

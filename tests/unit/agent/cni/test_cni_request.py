"""The specification's rules: a table of what a runtime may ask, and what it is told if it may not."""

from typing import Any

import pytest

from alcove.agent.cni.protocol import CniError, CniPodRef, Command, read
from alcove.api.ids import TenantId

ENVIRONMENT = {
    "CNI_COMMAND": "ADD",
    "CNI_CONTAINERID": "c0ffee",
    "CNI_NETNS": "/run/netns/x",
    "CNI_IFNAME": "eth0",
    "CNI_ARGS": "IgnoreUnknown=1;K8S_POD_TENANT=acme;K8S_POD_NAMESPACE=default;K8S_POD_NAME=web;K8S_POD_UID=u1",
}
CONFIG: dict[str, Any] = {"cniVersion": "1.1.0", "name": "alcove", "type": "alcove-cni"}


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

"""Conflicting ports of a pod."""

from typing import Any

import pytest

from alcove.api.objects import Object
from alcove.api.warnings.ports import warnings


def port(number: int = 80, **more: Any) -> Object:
    return {"containerPort": number, "protocol": "TCP", **more}


def messages(*containers: list[Object]) -> list[str]:
    return warnings([(f"c{index}", {"ports": ports}) for index, ports in enumerate(containers)])


@pytest.mark.parametrize(
    ("one", "other", "relation"),
    [
        (port(), port(), "duplicate"),
        (port(), port(protocol="UDP"), ""),
        (port(), port(81), ""),
        (port(hostPort=1), port(), "overlapping"),
        (port(hostPort=1), port(hostPort=2), ""),
        (port(hostPort=1, hostIP="10.0.0.1"), port(hostPort=1), "dangerously ambiguous"),
        (port(hostPort=1, hostIP="10.0.0.1"), port(hostPort=1, hostIP="10.0.0.2"), ""),
    ],
)
def test_two_ports_go_together(one: Object, other: Object, relation: str) -> None:
    wanted = [f"c1.ports[0]: {relation} port definition with c0.ports[0]"] if relation else []
    assert messages([one], [other]) == wanted


def test_an_address_without_a_port() -> None:
    assert messages([port(name="web", hostIP="10.0.0.1")]) == [
        "c0.ports[0]: hostIP set without hostPort: "
        "{Name:web HostPort:0 ContainerPort:80 Protocol:TCP HostIP:10.0.0.1}"
    ]


def test_a_name_twice() -> None:
    assert messages([port(name="web"), port(81, name="web")]) == [
        'c0.ports[1]: duplicate port name "web" with c0.ports[0], services and probes that select ports by name '
        "will use c0.ports[0]"
    ]

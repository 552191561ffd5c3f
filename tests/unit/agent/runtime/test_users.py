"""The user that a container runs as, by a table."""

import pytest

from alcove.agent.runtime.base import SpecRefused
from alcove.agent.runtime.users import Accounts, User, resolve
from alcove.api.objects import Object

ACCOUNTS = Accounts(
    passwd="root:x:0:0:root:/root:/bin/sh\nweb:x:101:102:Web:/srv:/bin/false\nbroken\nnohome:x:7:7:::\n",
    group="root:x:0:\nweb:x:102:\nlogs:x:500:web,other\nbad:x:y:web\n",
)

CASES: list[tuple[Object, Object, str, User]] = [
    ({}, {}, "", User(0, 0, (), "/root")),
    ({}, {}, "web", User(101, 102, (500,), "/srv")),
    ({}, {}, "101", User(101, 102, (500,), "/srv")),
    ({}, {}, "web:logs", User(101, 500, (500,), "/srv")),
    ({}, {}, "web:77", User(101, 77, (500,), "/srv")),
    ({}, {}, "4000", User(4_000, 0, (), "/")),
    ({}, {}, "nohome", User(7, 7, (), "/")),
    ({"runAsUser": 1_000}, {}, "web", User(1_000, 0, (), "/")),
    ({"runAsUser": 1_000}, {"runAsUser": 101}, "", User(101, 102, (500,), "/srv")),
    ({"runAsUser": 1_000, "runAsGroup": 2_000}, {}, "web:logs", User(1_000, 2_000, (), "/")),
    ({"runAsGroup": 2_000}, {"runAsGroup": 3_000}, "web", User(101, 3_000, (500,), "/srv")),
    ({"fsGroup": 9, "supplementalGroups": [8, 9]}, {}, "web", User(101, 102, (8, 9, 500), "/srv")),
    ({"fsGroup": 9, "supplementalGroupsPolicy": "Strict"}, {}, "web", User(101, 102, (9,), "/srv")),
    ({"runAsNonRoot": True}, {}, "101", User(101, 102, (500,), "/srv")),
    ({"runAsNonRoot": True}, {"runAsNonRoot": False}, "", User(0, 0, (), "/root")),
]


@pytest.mark.parametrize(("pod", "container", "image_user", "expected"), CASES)
def test_users(pod: Object, container: Object, image_user: str, expected: User) -> None:
    found = resolve({"securityContext": pod}, {"securityContext": container}, image_user, ACCOUNTS)
    assert found == expected


def test_an_image_without_accounts() -> None:
    assert resolve({}, {}, "", Accounts()) == User(0, 0, (), "/")
    assert resolve({}, {}, "12:13", Accounts()) == User(12, 13, (), "/")


@pytest.mark.parametrize(
    ("pod", "image_user", "why"),
    [
        ({}, "stranger", "unable to find user stranger"),
        ({}, "web:strangers", "unable to find group strangers"),
        ({}, str(2**31), "unable to find user"),
        ({"runAsNonRoot": True}, "", "image will run as root"),
        ({"runAsNonRoot": True, "runAsUser": 0}, "web", "image will run as root"),
        ({"runAsNonRoot": True}, "web", "non-numeric user"),
    ],
)
def test_refusals(pod: Object, image_user: str, why: str) -> None:
    with pytest.raises(SpecRefused, match=why):
        resolve({"securityContext": pod}, {}, image_user, ACCOUNTS)

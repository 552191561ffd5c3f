"""Which subnets a VPC can have: the pure check, as a table. The flow tests cover the controllers."""

from typing import Any

import pytest

from alcove.api.objects import Object
from alcove.vpc.errors import AddressUnavailable, RequestRefused
from alcove.vpc.subnets import check

GOING = {"deletionTimestamp": "2024-05-01T10:00:00Z"}


def vpc(cidr: str = "10.0.0.0/16", **meta: Any) -> Object:
    ip, _, prefix = cidr.partition("/")
    return {"metadata": {"name": "v", **meta}, "spec": {"ip": ip, "prefix": prefix} if cidr else {}}


def subnet(name: str, cidr: str, state: str = "Init", made: str = "2024-05-01T10:00:00Z") -> Object:
    ip, _, prefix = cidr.partition("/")
    spec = {"vpc": "v", "status": state, **({"ip": ip, "prefix": prefix} if cidr else {})}
    return {"metadata": {"name": name, "uid": name, "creationTimestamp": made}, "spec": spec}


@pytest.mark.parametrize(
    ("cidr", "whole", "message"),
    [
        ("192.168.0.0/24", "10.0.0.0/16", 'subnet "a" (192.168.0.0/24) is not inside VPC "v" (10.0.0.0/16)'),
        ("10.0.0.0/8", "10.0.0.0/16", "is not inside"),
        ("fd00::/64", "10.0.0.0/16", 'subnet "a" (fd00::/64) is IPv6, but VPC "v" (10.0.0.0/16) is IPv4'),
        ("", "10.0.0.0/16", "spec.ip and spec.prefix are required"),
    ],
)
def test_what_can_never_be(cidr: str, whole: str, message: str) -> None:
    with pytest.raises(RequestRefused) as refused:
        check(subnet("a", cidr), vpc(whole), [])
    assert message in str(refused.value)


@pytest.mark.parametrize("parent", [vpc(""), vpc(**GOING)])
def test_what_is_waited_for(parent: Object) -> None:
    with pytest.raises(AddressUnavailable):
        check(subnet("a", "10.0.1.0/24"), parent, [])


EARLIER, LATER = "2024-05-01T09:00:00Z", "2024-05-01T11:00:00Z"


@pytest.mark.parametrize(
    ("other", "wins"),
    [
        (subnet("b", "10.0.1.0/25", "Provisioned", LATER), False),
        (subnet("b", "10.0.0.0/20", "Init", EARLIER), False),
        (subnet("b", "10.0.1.0/24", "Init", LATER), True),
        (subnet("b", "10.0.1.0/24", "Failed", EARLIER), True),
        (subnet("b", "10.0.2.0/24", "Provisioned", EARLIER), True),
        (subnet("a", "10.0.1.0/24", "Provisioned"), True),
    ],
    ids=["provisioned", "older", "younger", "refused itself", "beside", "itself"],
)
def test_of_two_that_overlap_the_first_wins(other: Object, wins: bool) -> None:
    mine = subnet("a", "10.0.1.0/24")
    if wins:
        check(mine, vpc(), [mine, other])
    else:
        with pytest.raises(RequestRefused, match='overlaps subnet "b"'):
            check(mine, vpc(), [mine, other])

"""The plan for a network, as a table: its VPC and subnets, existing, created, awaited or refused."""

from collections.abc import Sequence
from ipaddress import ip_network
from typing import Any

import pytest

from alcove.api.addresses import Network
from alcove.api.ids import TenantId
from alcove.api.objects import Object
from alcove.network.owners import NETWORK_MARK, TenantNetworkId, mark_made
from alcove.network.providers.vpc_plan import NetworkPlan, ObservedVpc, SubnetPlan, choose_name, plan
from alcove.vpc.errors import AddressUnavailable, RequestRefused

OWNER = TenantNetworkId(TenantId("acme"), "blue")
FRESH = ip_network("10.7.0.0/16")


def fresh(_avoid: Sequence[Network]) -> Network:
    return FRESH


def network(**spec: Any) -> Object:
    return {"metadata": {"name": "blue"}, "spec": {"type": "mizar", **spec}}


def vpc(
    name: str = "vpc01", cidr: str = "10.0.0.0/16", owner: str = "", made: bool = False, **meta: Any
) -> Object:
    ip, _, prefix = cidr.partition("/")
    obj: Object = {"metadata": {"name": name, **meta}, "spec": {"ip": ip, "prefix": prefix}}
    if made:
        mark_made(obj, OWNER)
    if owner:
        obj["metadata"]["annotations"] = {NETWORK_MARK: owner}
    return obj


def subnet(name: str, cidr: str, vpc_name: str = "vpc01", **meta: Any) -> Object:
    ip, _, prefix = cidr.partition("/")
    return {"metadata": {"name": name, **meta}, "spec": {"ip": ip, "prefix": prefix, "vpc": vpc_name}}


def decide(
    wanted: Object, there: Object | None = None, subnets: Sequence[Object] = (), named: Sequence[Object] = ()
) -> NetworkPlan:
    """`named`: subnets of other VPCs that have a name the network names."""
    own = [each for each in subnets if each["metadata"]["name"] in wanted["spec"].get("subnets", ())]
    seen = ObservedVpc(
        name=choose_name(OWNER, wanted, [], lambda _name: None),
        vpc=there,
        subnets=subnets,
        named={each["metadata"]["name"]: each for each in (*own, *named)},
    )
    return plan(OWNER, wanted, seen, fresh)


def owner(tenant: str, name: str) -> TenantNetworkId:
    return TenantNetworkId(TenantId(tenant), name)


@pytest.mark.parametrize(
    ("owner", "given", "holders", "expected"),
    [
        (owner("acme", "default"), "", {}, "acme-default-network"),
        (owner("acme", "my-network"), "", {}, "acme-my-network"),
        (owner("acme", "default"), "vpc-1", {}, "vpc-1"),
        (owner("acme", "blue"), "", {"acme-blue": ""}, "acme-blue"),
        (owner("acme", "blue"), "", {"acme-blue": "acme/blue"}, "acme-blue"),
        (owner("a", "b-c"), "", {"a-b-c": "a-b/c"}, "a.b-c"),
        (owner("a-b", "c"), "", {"a-b-c": "a/b-c"}, "a-b.c"),
        (owner("a", "b-c"), "", {"a-b-c": "a/b-c"}, "a-b-c"),
        (owner("a", "b-c"), "", {"a.b-c": "a/b-c"}, "a.b-c"),
        (owner("acme", "blue"), "", {"acme-blue": "evil/squat"}, "acme.blue"),
        (
            owner("acme", "default-network"),
            "",
            {"acme-default-network": "acme/default"},
            "acme.default-network",
        ),
        (owner("acme-default", "network"), "", {}, "acme-default.network"),
        (owner("acme", "blue"), "", {"reserved": "acme/blue"}, "acme-blue"),
    ],
)
def test_the_vpcs_name(owner: TenantNetworkId, given: str, holders: dict[str, str], expected: str) -> None:
    vpcs = {name: vpc(name, owner=holder) for name, holder in holders.items()}
    held = [vpcs[name] for name, holder in holders.items() if holder == str(owner)]
    assert choose_name(owner, network(vpcID=given), held, vpcs.get) == expected


def made(
    *subnets: tuple[str, str], name: str = "vpc01", cidr: str = "10.0.0.0/16", services: str = "10.96.0.0/16"
) -> NetworkPlan:
    return NetworkPlan(
        vpc=name,
        make=ip_network(cidr),
        subnets=tuple(SubnetPlan(each, ip_network(part)) for each, part in subnets),
        services=(ip_network(services),),
    )


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (network(vpcID="vpc01", ip="10.0.0.0", prefix=16), made(("vpc01-subnet", "10.0.0.0/16"))),
        (network(vpcID="vpc01", ip="10.0.0.0", prefix="24"), made(("vpc01-subnet", "10.0.0.0/24"), cidr="10.0.0.0/24")),
        (network(vpcID="vpc01"), made(("vpc01-subnet", "10.7.0.0/16"), cidr="10.7.0.0/16")),
        (network(), made(("acme-blue-subnet", "10.7.0.0/16"), name="acme-blue", cidr="10.7.0.0/16")),
        (
            network(vpcID="vpc01", ip="10.0.0.0", prefix=16, subnets=["a", "b", "c"]),
            made(("a", "10.0.0.0/18"), ("b", "10.0.64.0/18"), ("c", "10.0.128.0/18")),
        ),
        (
            network(vpcID="vpc01", ip="10.0.0.0", prefix=8),
            made(("vpc01-subnet", "10.0.0.0/8"), cidr="10.0.0.0/8", services="172.31.0.0/16"),
        ),
        (
            network(vpcID="vpc01", ip="fd00::", prefix=48),
            made(("vpc01-subnet", "fd00::/48"), cidr="fd00::/48", services="fd96::/108"),
        ),
        (
            network(vpcID="vpc01", ip="10.0.0.0", prefix=16, service={"cidrs": ["10.5.0.0/24"]}),
            made(("vpc01-subnet", "10.0.0.0/16"), services="10.5.0.0/24"),
        ),
    ],
)  # fmt: skip
def test_a_missing_vpc_is_created(wanted: Object, expected: NetworkPlan) -> None:
    assert decide(wanted) == expected


def test_a_vpc_without_owner_can_be_attached() -> None:
    nets = [subnet("net1", "10.0.1.0/24"), subnet("net2", "10.0.2.0/24")]
    decided = decide(network(vpcID="vpc01", ip="10.0.0.0", prefix=16, subnets=["net2", "net1"]), vpc(), nets)
    assert decided.make is None and decided.attach
    assert decided.subnets == (SubnetPlan("net2"), SubnetPlan("net1")), "in the order they are named"
    assert decide(network(vpcID="vpc01"), vpc(), nets).subnets == (SubnetPlan("net1"), SubnetPlan("net2"))


def test_a_vpc_without_subnets_gets_one() -> None:
    decided = decide(network(vpcID="vpc01"), vpc())
    assert decided.subnets == (SubnetPlan("vpc01-subnet", ip_network("10.0.0.0/16")),)


def test_ones_own_vpc_stays_as_it_is() -> None:
    again = decide(network(vpcID="vpc01"), vpc(made=True), [subnet("vpc01-subnet", "10.0.0.0/16")])
    assert (again.make, again.attach, again.subnets) == (None, False, (SubnetPlan("vpc01-subnet"),))
    reserved = decide(network(vpcID="vpc01"), vpc(owner="acme/blue"))
    assert not reserved.attach, "ring0 had marked it for this network already"


def test_a_further_subnet_is_a_free_part_of_ones_own_vpc() -> None:
    nets = [subnet("a", "10.0.0.0/17")]
    decided = decide(network(vpcID="vpc01", subnets=["a", "b"]), vpc(made=True), nets)
    assert decided.subnets == (SubnetPlan("a"), SubnetPlan("b", ip_network("10.0.128.0/17")))


GOING: dict[str, Any] = {"deletionTimestamp": "2024-05-01T10:00:00Z"}


@pytest.mark.parametrize(
    ("wanted", "there", "subnets", "message"),
    [
        (network(vpcID="vpc01"), vpc(owner="other/net"), [], 'VPC "vpc01" is owned by a network of another tenant'),
        (network(vpcID="vpc01"), vpc(owner="acme/green"), [], 'VPC "vpc01" is used by network "green" already'),
        (network(vpcID="vpc01", ip="10.1.0.0", prefix=16), vpc(), [], 'VPC "vpc01" has the range 10.0.0.0/16, not 10.1.0.0/16'),
        (network(vpcID="vpc01", ip="fd00::", prefix=48), vpc(), [], 'VPC "vpc01" has the range 10.0.0.0/16, not fd00::/48'),
        (network(vpcID="other-default-network"), None, [], "reserved for networks of another tenant"),
        (network(vpcID="other.net"), None, [], "reserved for networks of another tenant"),
        (network(subnets=["x", "theirs-subnet"]), None, [], 'subnet "theirs-subnet" is reserved for the VPC of that name'),
        (network(vpcID="vpc01", service={"cidrs": ["10.0.9.0/24"]}), vpc(), [], "service range 10.0.9.0/24 overlaps the network's own range 10.0.0.0/16"),
        (network(vpcID="vpc01", service={"cidrs": ["fd96::/108"]}), vpc(), [], "service range fd96::/108 is IPv6, but the network (10.0.0.0/16) is IPv4"),
        (network(vpcID="vpc01", service={"cidrs": ["172.20.0.0/24"] * 9}), vpc(), [], "spec.service.cidrs must have at most 8 items"),
        (network(vpcID="vpc01", ip="10.0.0.0", prefix=30, subnets=["a", "b"]), None, [], "10.0.0.0/30 is too small for 2 subnets"),
        (network(vpcID="vpc01", subnets=["a", "b"]), vpc(made=True), [subnet("a", "10.0.0.0/16")], 'no room for subnet "b" (/17) in 10.0.0.0/16'),
    ],
)  # fmt: skip
def test_what_is_refused(wanted: Object, there: Object | None, subnets: list[Object], message: str) -> None:
    with pytest.raises(RequestRefused) as refused:
        decide(wanted, there, subnets)
    assert message in str(refused.value)


@pytest.mark.parametrize("there", [vpc("vpc0"), None])
def test_a_vpc_of_another_provider_is_refused_even_before_it_is_there(there: Object | None) -> None:
    seen = ObservedVpc(name="vpc0", vpc=there, subnets=(), named={}, shared_by="flat")
    with pytest.raises(RequestRefused, match='VPC "vpc0" is shared by all flat networks'):
        plan(OWNER, network(vpcID="vpc0"), seen, fresh)


def test_a_subnet_of_another_vpc_is_refused() -> None:
    with pytest.raises(RequestRefused, match='subnet "net1" does not belong to VPC "vpc01"'):
        decide(network(vpcID="vpc01", subnets=["net1"]), vpc(), [], [subnet("net1", "10.0.1.0/24", "vpc02")])


@pytest.mark.parametrize(
    ("wanted", "there", "subnets", "message"),
    [
        (network(vpcID="vpc01"), vpc(**GOING), [], 'VPC "vpc01" is being deleted'),
        (network(vpcID="vpc01", subnets=["net9"]), vpc(), [], 'subnet "net9" of VPC "vpc01" not found'),
        (network(vpcID="vpc01"), vpc(made=True), [subnet("vpc01-subnet", "10.0.0.0/16", **GOING)], "are being deleted"),
        (network(vpcID="vpc01"), {"metadata": {"name": "vpc01"}, "spec": {}}, [], "to have a range"),
    ],
)  # fmt: skip
def test_what_is_waited_for(wanted: Object, there: Object, subnets: list[Object], message: str) -> None:
    with pytest.raises(AddressUnavailable) as waits:
        decide(wanted, there, subnets)
    assert message in str(waits.value)


def test_a_fresh_range_avoids_the_networks_own_services() -> None:
    avoided: list[Network] = []

    def note(avoid: Sequence[Network]) -> Network:
        avoided.extend(avoid)
        return FRESH

    wanted = network(service={"cidrs": ["10.0.0.0/16"]})
    plan(OWNER, wanted, ObservedVpc(name="acme-blue", vpc=None, subnets=(), named={}), note)
    assert avoided == [ip_network("10.0.0.0/16")]

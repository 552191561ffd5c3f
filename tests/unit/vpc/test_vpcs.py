"""The dividers of a VPC are found without those of the networks that share its range."""

from alcove.api.ids import SYSTEM, Revision
from alcove.api.kinds.mizar import OWNER_LABEL
from alcove.api.objects import Object
from alcove.client.keys import HOME
from alcove.client.planes import Planes
from alcove.testing.reads import count_reads
from alcove.vpc.defaults import DEFAULT_VPC
from alcove.vpc.droplets import DropletSet
from alcove.vpc.ranges import RangeUsage
from alcove.vpc.vpc_cache import VpcCache
from alcove.vpc.vpcs import VpcReconciler


def divider(name: str, owner_uid: str) -> Object:
    metadata = {"tenant": SYSTEM, "name": name, "labels": {OWNER_LABEL: owner_uid}}
    return {"metadata": metadata, "spec": {"vpc": DEFAULT_VPC, "status": "Provisioned"}}


async def test_flat_networks_do_not_make_the_default_vpc_expensive() -> None:
    async with Planes() as planes:
        cache = VpcCache(planes, lambda: 0.0)
        vpcs = VpcReconciler(cache, DropletSet(cache), RangeUsage())
        dividers = cache.dividers.add_plane(HOME)
        dividers.put(divider("vni-1-d0", "own"), Revision(1))
        for number in range(2, 100):
            dividers.put(divider(f"vni-{number}-d0", f"network-{number}"), Revision(number))
        with count_reads() as reads:
            found = vpcs._dividers_of({"metadata": {"name": DEFAULT_VPC, "uid": "own"}})
        assert [each["metadata"]["name"] for each in found] == ["vni-1-d0"]
        assert reads.count <= 2

"""Pools of addresses are found without looking at the subnets of networks."""

import time

from alcove.api.ids import SYSTEM, Revision, TenantId
from alcove.client.events import EventRecorder
from alcove.client.keys import HOME
from alcove.client.planes import Planes
from alcove.controllers.controller import ControllerContext
from alcove.controllers.metadata_cache import MetadataCache
from alcove.controllers.services.balancers import OUTSIDE_LABEL, LoadBalancerController
from alcove.testing.reads import count_reads


async def test_pools_are_found_among_many_subnets_reserved_ones_first() -> None:
    async with Planes() as planes:
        context = ControllerContext(
            planes=planes, metadata_cache=MetadataCache(planes), recorder=EventRecorder(planes.client, time.time),
            clock=time.time, authorities={},
        )  # fmt: skip
        balancers = LoadBalancerController(context)
        subnets = balancers._cache.subnets.add_plane(HOME)
        users = {"everybodys": "true", "acmes": "acme", "others": "other"}
        for number, name in enumerate([*users, *(f"subnet-{number}" for number in range(100))], start=1):
            labels = {OUTSIDE_LABEL: users[name]} if name in users else {}
            metadata = {"tenant": SYSTEM, "name": name, "labels": labels}
            subnets.put({"metadata": metadata, "spec": {"status": "Provisioned"}}, Revision(number))
        with count_reads() as reads:
            pools = balancers._pools(TenantId("acme"))
        assert [each["metadata"]["name"] for each in pools] == ["acmes", "everybodys"]
        assert reads.count <= 4

"""The number of duties of each droplet follows the objects, and droplets without duties are not kept."""

import msgspec

from alcove.api.ids import SYSTEM
from alcove.api.objects import Object
from alcove.client.changes import ChangeType, ObjectChange
from alcove.client.keys import HOME, ObjectKey
from alcove.client.planes import Planes
from alcove.vpc.droplets import DropletSet
from alcove.vpc.vpc_cache import VpcCache


def duty(droplet: str) -> Object:
    return {"metadata": {"name": "d"}, "spec": {"droplet": droplet}}


def encoded(droplet: str) -> bytes:
    return msgspec.json.encode(duty(droplet))


async def test_a_droplet_is_forgotten_with_its_last_duty() -> None:
    async with Planes() as planes:
        droplets = DropletSet(VpcCache(planes, lambda: 0.0))
        key = ObjectKey(HOME, SYSTEM, "", "d")
        droplets._duty_changed(ObjectChange(ChangeType.ADDED, key, duty("a")))
        droplets._duty_changed(ObjectChange(ChangeType.UPDATED, key, duty("b"), encoded("a")))
        assert dict(droplets.duties) == {"b": 1}
        droplets._duty_changed(ObjectChange(ChangeType.DELETED, key, duty("b"), encoded("b")))
        assert dict(droplets.duties) == {}
